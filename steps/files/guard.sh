#!/bin/sh
# netbisect-guard ROLE [ROOT]: lets a key of netbisect do what netbisect does here, and nothing else.
#
# ROLE is dut, traffic (generator and receiver), traffic-scripts (the same, with commands of
# scenarios, which may do anything), or server (of a DUT's root file system, below ROOT).
# In authorized_keys of the user that netbisect logs in as:
#
#   restrict,command="/usr/local/libexec/netbisect-guard traffic" ssh-ed25519 AAAA... netbisect
#
# The line that was sent is run only when it is made of plain and quoted words, `&&` and `;`, and
# each command in it is one of those below. What is refused goes to the system's log.

set -f
LC_ALL=C
PATH=/sbin:/bin:/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin
export LC_ALL PATH
role=$1
root=$2
line=$SSH_ORIGINAL_COMMAND

refuse() {
    logger -t netbisect-guard -p auth.warning "refused as $role: $line" 2>/dev/null
    echo "netbisect-guard: not allowed for $role: $1" >&2
    exit 126
}

case $role in
dut | traffic | traffic-scripts | server) ;;
*)
    echo "netbisect-guard: expected dut, traffic, traffic-scripts or server, found '$role'" >&2
    exit 126
    ;;
esac
case $root in
*[!A-Za-z0-9/._-]*)
    echo "netbisect-guard: ROOT: expected a path of plain letters, found '$root'" >&2
    exit 126
    ;;
esac
case /$root/ in
*/../*)
    echo "netbisect-guard: ROOT: expected a path without '..', found '$root'" >&2
    exit 126
    ;;
esac
case $line in
"") refuse "a login" ;;
*"
"*) refuse "several lines" ;;
esac

why=$(printf '%s\n' "$line" | awk -v role="$role" -v root="$root" '
# A word ends; letters that a shell would look at are replaced, so that no rule takes them for plain.
function end_word() {
    if (have) command = command (command == "" ? "" : " ") word
    word = ""
    have = 0
}

function end_command() {
    end_word()
    # No path of netbisect has two dots in a row: none of these leads out of its folder.
    if (index(command, "..") || !allowed(command)) {
        gsub(/\001/, "?", command)
        print (command == "" ? "an empty command" : command)
        exit
    }
    command = ""
}

function is(rule) {
    return tried ~ ("^" rule "$")
}

function marks() {
    return is("true") || is("echo netbisect:\001the\001end\001of\001this\001answer")
}

function looks() {
    return marks() || is("uname -[vr]") || is("date (-u )?[+]%s") || is("which pkt-gen") || is("dmesg") \
        || is("vmstat -i") || is("kldstat( -m [a-z0-9_]+)?") || is("kenv( [a-z0-9._]+)?") \
        || is("ifconfig -a( -m)?") || is("pciconf -l") || is("sysctl -(n|ie)( [A-Za-z0-9._%-]+)*") \
        || is("netstat -I [A-Za-z0-9._]+ -bn --libxo json") \
        || is("ps -ax -o pid= -o ppid= -o pcpu= -o comm=") \
        || is("route -n get -inet6? [0-9a-f.:]+") || is("(arp|ndp) -n [0-9a-f.:]+")
}

# Kernels of ours in a folder /boot, and the order to boot one of them once.
function kernels(boot,    ours, any, conf) {
    ours = boot "/kernel[.]nb-[0-9a-f]+([.]new)?"
    any = boot "/nextboot[.]conf"
    conf = boot "/loader[.]conf[.]d/netbisect[.]conf"
    return is("df -k " boot) || is("ls -1t? " boot "(/[A-Za-z0-9._-]+/netbisect-tools)?") || is("cd " ours) \
        || is("sha256 -r( [A-Za-z0-9._/-]+)*") && tried !~ / \// \
        || is("rm -rf( " ours ")+") || is("mkdir -p " ours) || is("tar -xzpf - -C " ours) \
        || is("kldxref " ours) || is("mv " ours " " ours) || is("sync") \
        || is("tee " any "[.]new") || is("mv " any "[.]new " any) \
        || is("rm -f " any " " any "[.]new") || is("mkdir -p " boot "/loader[.]conf[.]d") \
        || is("tee " conf "[.]new") || is("mv " conf "[.]new " conf)
}

function boots() {
    return is("kenv netbisect[.](before|proven|done)=[0-9a-f]+") \
        || is("kenv net[.]inet[.]ip[.]fw[.]default_to_accept=1") || is("shutdown -r now") \
        || is("nextboot( -e [A-Za-z0-9._-]+=[A-Za-z0-9._:,+-]+)* -k kernel[.]nb-[0-9a-f]+") \
        || is("nextboot -D") || is("dumpon off") || is("cat /etc/sysctl[.]conf") || is("bectl list -H") \
        || is("bectl (create|umount|activate -[tT]) netbisect") \
        || is("bectl mount netbisect /tmp/netbisect[.]root") \
        || is("grep -c nvstore /sbin/nextboot /boot/lua/config[.]lua") \
        || is("watchdogd -t [0-9]+") || is("du -sk /boot/[A-Za-z0-9._-]+") \
        || is("mount -u[wr] /") || is("umount /tmp/netbisect[.]root") \
        || is("fsck_ffs -p /dev/gpt/[A-Za-z0-9._-]+") || is("mkdir -p /tmp/netbisect[.]root") \
        || is("mount /dev/gpt/[A-Za-z0-9._-]+ /tmp/netbisect[.]root") || is("gpart show -lp") \
        || is("gpart (un)?set -a boot(me|once) -i [0-9]+ [a-z][a-z0-9/]*")
}

function measures(    set, place) {
    set = "[A-Za-z0-9._%-]+=[A-Za-z0-9._:-]*"
    event = "[A-Za-z0-9._,=:-]+"
    place = "/var/tmp/netbisect-profile"
    return is("sysctl -i?n( " set ")+") || is("kldload -n (pf|ipfw|hwpmc)") \
        || is("kldunload (-f )?[a-z0-9_]+") || is("pfctl -q -([de]|F all|f -)") \
        || is("ipfw -q -f flush") || is("ipfw -q add( [^ ]+)+") || is("pmccontrol -L") \
        || is("timeout -s INT [0-9]+ pmcstat (-n 1 )?-z [0-9]+ -S " event " -l [0-9.]+ -O " place "/samples") \
        || is("pmcstat -R " place "/samples -z [0-9]+ -G " place "/stacks") \
        || is("rm -rf " place) || is("mkdir -m 700 " place) || is("head -c [0-9]+ " place "/stacks")
}

function sends() {
    return is("timeout -s INT (-k [0-9]+ )?[0-9]+ pkt-gen( [^ ]+)+") || is("pkill -INT -x -f pkt-gen\001[^ ]+") \
        || is("pkt-gen -h") || is("sha256 -r /[A-Za-z0-9._/-]+/pkt-gen")
}

function scripts() {
    return is("timeout (--foreground )?-s INT [0-9]+ sh")
}

function allowed(said) {
    tried = said
    if (role == "traffic") return looks() || sends()
    if (role == "traffic-scripts") return looks() || sends() || scripts()
    if (role == "server") return root != "" && (marks() || kernels(plain_root "/boot"))
    # Programs that came with a kernel.
    sub(/^\/boot\/kernel[.]nb-[0-9a-f]+\/netbisect-tools\//, "", tried)
    return looks() || kernels("(/tmp/netbisect[.]root)?/boot") || boots() || measures() || scripts()
}

# In a string: between slashes, the backslash before one would be taken for a plain letter by some.
BEGIN {
    plain = "A-Za-z0-9@%+=:,./_-"
    plain_root = root
    gsub("[.]", "[.]", plain_root)
}

{
    size = length($0)
    for (i = 1; i <= size; i++) {
        letter = substr($0, i, 1)
        if (letter == "\047") {
            rest = substr($0, i + 1)
            end = index(rest, "\047")
            if (!end) { print "a quote that does not end"; exit }
            text = substr(rest, 1, end - 1)
            gsub("[^" plain "]", "\001", text)
            word = word text
            have = 1
            i += end
        } else if (substr($0, i, 3) == "\"\047\"") {
            word = word "\001"
            have = 1
            i += 2
        } else if (letter == " ") {
            end_word()
        } else if (substr($0, i, 2) == "&&") {
            end_command()
            i++
        } else if (letter == ";") {
            end_command()
        } else if (letter ~ "[" plain "]") {
            word = word letter
            have = 1
        } else {
            print "the letter " letter
            exit
        }
    }
    end_command()
}
') || why="awk does not work here"
[ -z "$why" ] || refuse "$why"
exec /bin/sh -c "$line"
