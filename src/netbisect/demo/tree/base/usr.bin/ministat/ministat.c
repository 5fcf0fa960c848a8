/* Statistics for the impatient. */
int
main(int argc, char **argv)
{
	return (0);
}
