/* Adds rules to ipfw(4). */
#include "ip_fw.h"

int
main(int argc, char *argv[])
{
	return (ipfw_add(argc, argv));
}
