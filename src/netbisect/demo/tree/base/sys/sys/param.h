/* Constants that everybody needs. */
#define	__FreeBSD_version	1500000
