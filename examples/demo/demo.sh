#!/bin/sh
# The demo: a file through three domains, then a policy pushed under traffic.
#
#	examples/demo/demo.sh [FILE]		(make demo INPUT=FILE)
#
# Shows each step and checks it; ends with 1 if one of them did not happen. Under a minute; needs
# /dev/kvm, xxhsum and audit2allow. PORTCULLIS names another program than build/portcullis.
set -u

here=$(dirname -- "$0")
root=$here/../..
input=${1:-$root/README.md}
portcullis=${PORTCULLIS:-$root/build/portcullis}
base=$root/policy/base.cil
strict=$here/strict.cil

work=$(mktemp -d "${TMPDIR:-/tmp}/portcullis-demo.XXXXXX") || exit 1
PORTCULLIS_SOCKET=$work/control.sock
export PORTCULLIS_SOCKET
log=$work/log
monitor=

if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
	bold=$(printf '\033[1m') red=$(printf '\033[31m') plain=$(printf '\033[0m')
else
	bold= red= plain=
fi

# Whatever happens, nothing is left behind.
clean_up() {
	if [ -n "$monitor" ]; then
		kill "$monitor" 2>/dev/null
		wait "$monitor" 2>/dev/null
	fi
	rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 1' INT TERM HUP PIPE

step() {
	printf '\n%s== %s%s\n' "$bold" "$1" "$plain"
}

fail() {
	printf '%sdemo: %s%s\n' "$red" "$1" "$plain" >&2
	if [ -s "$log" ]; then
		echo "the last lines of the log:" >&2
		tail -n 20 "$log" >&2
	fi
	exit 1
}

# Waits until the log has a line that holds $1, and shows it.
await_log() {
	timeout 15 tail -n +1 -f "$log" 2>/dev/null | grep -m 1 -e "$1" || fail "nobody logged \"$1\""
}

# Messages in the flow from demo/$1 to demo/$2, "" if it is not open.
messages() {
	"$portcullis" channel list | sed 's/^  *//' |
		awk -v from="demo/$1" -v to="demo/$2" '{
			for (i = 1; i + 4 <= NF; i++)
				if ($i == from && $(i + 2) == to && $(i + 3) == "open")
					print $(i + 4)
		}'
}

for tool in "$portcullis" xxhsum audit2allow timeout; do
	command -v "$tool" >/dev/null || fail "$tool is missing; make installs and builds what the demo needs"
done
[ -s "$input" ] && [ -r "$input" ] || fail "$input: not a file with something in it"

step "A file through three domains: source -> courier -> sink"
timeout 30 "$portcullis" run "$here/stream.conf" --data "source=$input" >"$log" 2>&1 ||
	fail "the stream did not end in order"
cat "$log"
arrived=$(sed -n 's/^stream\/sink: xxh3 \([0-9a-f]*\) bytes .*/\1/p' "$log")
sent=$(xxhsum -H3 <"$input" | grep -o -E '[0-9a-f]{16}' | tail -n 1)
echo "xxhsum -H3 of $input on the host: $sent"
[ -n "$sent" ] && [ "$arrived" = "$sent" ] || fail "the digests differ: something else arrived than was sent"
echo "The digests are equal."

step "A guest with two vCPUs: three clients, a relay, an echo server"
: >"$log"
"$portcullis" run "$here/demo.conf" >"$log" 2>&1 &
monitor=$!
"$portcullis" channel list --until 4 --deadline 20 || fail "the channels were not opened"

step "What would a stricter policy cut?"
"$portcullis" policy plan "$base" "$strict" >"$work/plan" || fail "no plan could be made"
cat "$work/plan"
grep -q 'cuts *channel .* demo/client --> demo/server' "$work/plan" ||
	fail "the plan does not name the flow from client to server"
[ -n "$(messages client server)" ] || fail "planning has cut something"

step "Push it"
before=$(messages kept server)
serial=$("$portcullis" audit --lines 0 --json | sed -n 's/.*"newest": \([0-9]*\).*/\1/p')
"$portcullis" policy push "$base" "$strict" >"$work/report" || fail "the push failed"
cat "$work/report"
grep -q 'The policy is in force: number 2' "$work/report" || fail "the policy is not in force"
grep -q 'cut *channel .* demo/client --> demo/server' "$work/report" || fail "client was not cut"
grep -q 'cut *channel .* demo/relay --> demo/server' "$work/report" || fail "relay was not cut"
grep -q 'Times.*total [0-9]' "$work/report" || fail "the report has no times"

step "Those who were cut know it"
await_log 'demo/client: revoked'
await_log 'demo/relay: revoked'

step "The channel that policy keeps went on"
after=$before
tries=0
while [ -n "$after" ] && [ "$after" -le "$before" ] && [ $tries -lt 200 ]; do
	after=$(messages kept server)
	tries=$((tries + 1))
done
[ -n "$after" ] && [ "$after" -gt "$before" ] || fail "kept does not go on"
# The client checks every echo for its number and its bytes, and says so when one is lost or wrong.
grep '^demo/kept: ' "$log" | grep -v 'demo/kept: connected to echo' && fail "kept has noticed the push"
[ "$(grep -c '^demo/kept: connected' "$log")" = 1 ] || fail "kept had to connect again"
echo "kept: $before messages before the push, $after by now, none lost, none wrong, one connection."

step "The client tries again; what is denied is in the audit trail"
"$portcullis" audit --after "$serial" --until 'domain="client"' --deadline 15 >"$work/audit" ||
	fail "the denial is not in the audit trail"
grep 'type=AVC .*domain="client".*scontext=[^ ]*:client_t:' "$work/audit" | head -n 1 >"$work/avc"
[ -s "$work/avc" ] || fail "no AVC line of the client"
cat "$work/avc"

step "The rule that would allow it, by audit2allow"
"$portcullis" policy show --output "$work/policy" >/dev/null || fail "the policy in force could not be saved"
audit2allow -p "$work/policy" <"$work/avc" >"$work/rule" 2>"$work/errors" || fail "audit2allow: $(cat "$work/errors")"
cat "$work/rule"
grep -q '^allow client_t server_t:channel ' "$work/rule" || fail "audit2allow made no rule of it"

step "Stop"
"$portcullis" shutdown || fail "the monitor did not stop"
wait "$monitor"
status=$?
monitor=
[ "$status" = 0 ] || fail "the monitor ended with status $status"
[ ! -e "$PORTCULLIS_SOCKET" ] || fail "the socket is still there"

step "A letter goes in, a signed letter comes out: two guests, and ports of the host"
: >"$log"
timeout 30 "$portcullis" run "$root/examples/sign.conf" <"$root/README.md" 2>"$log" >"$work/signed" ||
	fail "the letter was not signed"
cat "$log"
"$(dirname -- "$portcullis")/verify" <"$work/signed" || fail "the signature is wrong"

step "The parser is cut from the vault in the middle of a letter"
: >"$log"
mkfifo "$work/letter"
timeout 60 "$portcullis" run "$root/examples/sign.conf" <"$work/letter" 2>"$log" >"$work/signed" &
monitor=$!
exec 3>"$work/letter"
cat "$root/README.md" >&3
"$portcullis" channel list --until 4 --deadline 20 || fail "the channels were not opened"
"$portcullis" policy push "$base" "$root/examples/lockdown.cil" || fail "the push failed"
cat "$root/README.md" >&3
exec 3>&-
wait "$monitor"
status=$?
monitor=
cat "$log"
[ "$status" = 1 ] || fail "the run ended with status $status, and the letter was not to be signed"
grep -q 'desk/parser: cut off from the vault' "$log" || fail "the parser was not told"
grep -q 'SIGNATURE' "$work/signed" && fail "the letter was signed"
echo "The letter stayed unsigned, and the exit status said so."

echo "Everything happened as it should."
