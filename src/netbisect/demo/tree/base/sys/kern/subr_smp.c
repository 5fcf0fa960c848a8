/* Several processors. */
#include "sys/param.h"

void
smp_rendezvous(void (*action)(void *), void *arg)
{
	ipi_all_but_self(action, arg);
}
