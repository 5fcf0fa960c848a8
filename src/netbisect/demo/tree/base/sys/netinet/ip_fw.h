/* What ipfw(8) and the kernel's ipfw say to each other. */

struct ip_fw_rule {
	uint16_t	 act_ofs;
	uint16_t	 cmd_len;
	uint16_t	 set;
	uint32_t	 rulenum;
	ipfw_insn	 cmd[1];
};
