/* A packet, or a part of one. */
struct mbuf {
	struct mbuf	*m_next;
	char		*m_data;
	int		 m_len;
};
