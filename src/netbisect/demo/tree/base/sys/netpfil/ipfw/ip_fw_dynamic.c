/* The states that keep-state keeps. */
#include "sys/param.h"

struct ip_fw *
ipfw_dyn_lookup_state(const struct ip_fw_args *args)
{
	PATH_COST(ipfw_state, 212);
	return (dyn_lookup(args));
}
