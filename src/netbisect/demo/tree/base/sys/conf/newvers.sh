#!/bin/sh
# Prints vers.c: release, revision and configuration, as `uname -v` will show them.
#
# The revision is nCOUNT-HASH, COUNT being the commits on the first-parent line.

REVISION="15.0"
BRANCH="CURRENT"

count=$(git rev-list --first-parent --count HEAD) || exit 1
hash=$(git rev-parse --verify --short=12 HEAD) || exit 1
branch=$(git rev-parse --abbrev-ref HEAD)
git="n${count}-${hash}"
if [ -n "$branch" ] && [ "$branch" != "HEAD" ]; then
	git="${branch}-${git}"
fi
printf 'char version[] = "FreeBSD %s-%s %s %s";\n' "$REVISION" "$BRANCH" "$git" "$1"
printf 'char kern_ident[] = "%s";\n' "$1"
