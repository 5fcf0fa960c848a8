/* Loads rules into pf(4). */
#include "pfvar.h"

int
main(int argc, char *argv[])
{
	return (pfctl_rules(argc, argv));
}
