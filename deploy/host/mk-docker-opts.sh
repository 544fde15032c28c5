#!/bin/sh
# Writes the options with which dockerd puts its containers into this host's subnet,
# for EnvironmentFile= of a unit. flannelctl docker-opts does the same without a shell.
set -eu

usage() {
	cat <<'END'
usage: mk-docker-opts.sh [-f FILE] [-d FILE] [-i] [-c] [-m] [-k KEY]

Writes the options for dockerd that the subnet file of flanneld asks for.
  -f FILE  the subnet file (/run/flannel/subnet.env)
  -d FILE  the file to write (/run/docker_opts.env)
  -i       write each option as a variable of its own: DOCKER_OPT_BIP ...
  -c       write all options as one variable; without -i and -c, write both forms
  -m       leave out --ip-masq
  -k KEY   the name of the one variable (DOCKER_OPTS)
END
}

fail() {
	echo "mk-docker-opts.sh: $*" >&2
	exit 1
}

misuse() {
	[ $# -eq 0 ] || echo "mk-docker-opts.sh: $*" >&2
	usage >&2
	exit 2
}

# read_subnet_file FILE: sets subnet, masq and mtu. It does not run the file, so a
# file that is not flanneld's is refused and not executed.
read_subnet_file() {
	subnet='' masq='' mtu=''
	[ -r "$1" ] || fail "cannot read the subnet file $1: is flanneld running, and does it hold a subnet?"
	while IFS= read -r line || [ -n "$line" ]; do
		case $line in
		FLANNEL_SUBNET=*) subnet=${line#*=} ;;
		FLANNEL_IPMASQ=*) masq=${line#*=} ;;
		FLANNEL_MTU=*) mtu=${line#*=} ;;
		esac
	done <"$1"

	case $subnet in
	'') fail "$1 has no FLANNEL_SUBNET: Docker needs an IPv4 subnet" ;;
	*[!0-9./]* | */*/* | /* | */) fail "$1: FLANNEL_SUBNET=$subnet is no address with a prefix length" ;;
	*/*) ;;
	*) fail "$1: FLANNEL_SUBNET=$subnet is no address with a prefix length" ;;
	esac
	case $masq in
	'' | true | false) ;;
	*) fail "$1: FLANNEL_IPMASQ=$masq is neither true nor false" ;;
	esac
	case $mtu in
	*[!0-9]*) fail "$1: FLANNEL_MTU=$mtu is no number" ;;
	esac
}

# refuse_gateway SUBNET: ends with status 1 if another host has this host's subnet.
refuse_gateway() {
	command -v ip >/dev/null || fail "needs the program ip, of iproute2 or busybox, to look for routes"
	routes=$(ip -4 route show exact "$1") || fail "cannot list the routes to $1"
	case $routes in
	*' via '*) fail "the subnet $1 has a route by a gateway, so its addresses are on another host: $routes" ;;
	esac
}

# options: prints the wanted variables.
options() {
	all=''
	add BIP bip "$subnet"
	if [ "$with_masq" = yes ]; then
		case $masq in
		true) add IPMASQ ip-masq false ;;
		false) add IPMASQ ip-masq true ;;
		esac
	fi
	[ -z "$mtu" ] || add MTU mtu "$mtu"
	[ "$combined" = no ] || printf '%s="%s"\n' "$key" "$all"
}

# add NAME OPTION VALUE: prints one option as a variable, and adds it to all of them.
add() {
	all="$all --$2=$3"
	[ "$separate" = no ] || printf 'DOCKER_OPT_%s="--%s=%s"\n' "$1" "$2" "$3"
}

# replace FILE TEXT: replaces a file as a whole. What is no plain file, such as
# /dev/stdout, is written to instead.
replace() {
	if [ "$1" = /dev/stdout ]; then
		printf '%s\n' "$2"
		return
	fi
	if [ -L "$1" ] || { [ -e "$1" ] && [ ! -f "$1" ]; }; then
		printf '%s\n' "$2" >"$1"
		return
	fi
	new=$1.$$
	umask 022
	# noclobber refuses a file or link that another program made under this name
	if ! (set -C && : >"$new"); then
		return 1
	fi
	if ! printf '%s\n' "$2" >"$new" || ! mv -f "$new" "$1"; then
		rm -f "$new"
		return 1
	fi
}

file=/run/flannel/subnet.env
out=/run/docker_opts.env
key=DOCKER_OPTS
separate=no combined=no with_masq=yes
while getopts f:d:icmk:h option; do
	case $option in
	f) file=$OPTARG ;;
	d) out=$OPTARG ;;
	i) separate=yes ;;
	c) combined=yes ;;
	m) with_masq=no ;;
	k) key=$OPTARG ;;
	h)
		usage
		exit 0
		;;
	*) misuse ;;
	esac
done
shift $((OPTIND - 1))
[ $# -eq 0 ] || misuse "unexpected argument $1"
case $key in
'' | [0-9]* | *[!A-Za-z0-9_]*) misuse "-k $key: want the name of a variable" ;;
esac
if [ "$separate$combined" = nono ]; then
	separate=yes combined=yes
fi

read_subnet_file "$file"
refuse_gateway "$subnet"
text=$(options)
replace "$out" "$text" || fail "cannot write $out"
