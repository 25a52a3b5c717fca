#!/bin/sh
# Checks the Promela models: tests/model/run.sh [MODEL...]; needs spin and gcc; about five minutes
# of one core and 2.2 GB.
#
# Every search is exhaustive. A line for each property, then for each seeded fault, which must be found, and
# by the property that is named; a fault that nothing finds is a failure, as is a search that did not end.
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=${BUILD:-$here/../../build}/model
mkdir -p "$build" && cd "$build" || exit 1
memory_mib=3900
passed=0 failed=0
wanted=${*:-stop cut connect wait doorbell backlog}

# is_wanted MODEL
is_wanted() {
	case " $wanted " in *" $1 "*) return 0 ;; esac
	return 1
}

# result STATUS MODEL NAME TEXT
result() {
	if [ "$1" -eq 0 ]; then
		passed=$((passed + 1))
		printf '  ok      %-8s %-20s %s\n' "$2" "$3" "$4"
	else
		failed=$((failed + 1))
		printf '  FAIL    %-8s %-20s %s; %s\n' "$2" "$3" "$4" "$PWD/$folder/log"
		tail -n 40 "$folder/log"
	fi
}

# search FOLDER MODEL "FLAGS" "COMPILER FLAGS" "PAN FLAGS": leaves FOLDER/log
search() {
	folder=$1
	mkdir -p "$folder"
	(
		cd "$folder" || exit 1
		rm -f ./*.trail pan
		# shellcheck disable=SC2086 # words
		spin -a $3 "$here/$2.pml" && gcc -w -O2 -DMEMLIM=$memory_mib $4 -o pan pan.c && ./pan -m2000000 -w25 $5
	) >"$folder/log" 2>&1
}

# Nothing found, and everything searched.
is_clean() {
	grep -q 'errors: 0$' "$1/log" && ! grep -qE 'Search not completed|max search depth too small|^pan:1:' "$1/log"
}

# asserts MODEL "FLAGS" NAME...: end states and named assertions, by one search
asserts() {
	is_wanted "$1" || return
	model=$1 flags=$2
	shift 2
	search "$model$(echo "$flags" | tr -d ' ')" "$model" "$flags" "-DSAFETY -DNOCLAIM" ""
	is_clean "$folder"
	status=$?
	states=$(sed -nE 's/^ *([0-9.e+]+) states, stored.*/\1/p' "$folder/log")
	for name in end-states "$@"; do
		result $status "$model" "$name" "${flags:+$flags, }$states states"
	done
}

# claim MODEL NAME: an invariant, as a never claim
claim() {
	is_wanted "$1" || return
	search "$1-$2" "$1" "" "-DSAFETY" "-N $2"
	is_clean "$folder"
	result $? "$1" "$2" "always"
}

# ends MODEL "FLAGS" NAME: it comes to that, if each process gets to run
ends() {
	is_wanted "$1" || return
	search "$1-$3" "$1" "$2" "-DNFAIR=3" "-a -f -N $3"
	is_clean "$folder"
	result $? "$1" "$3" "in the end${2:+, $2}"
}

# fault MODEL NAME EXPECTED [FLAGS]: what pan has to say
fault() {
	is_wanted "$1" || return
	search "$1-$2" "$1" "-D$2 ${4:-}" "-DSAFETY -DNOCLAIM" ""
	grep -qE "^pan:1: (assertion violated .*\|\|$3\)|$3) " "$folder/log"
	result $? "$1" "$2" "found: $3"
}

asserts stop "" frozen arrived out_of_guest io_complete acknowledged withdrawn alive
asserts stop -DNESTED frozen arrived out_of_guest acknowledged withdrawn alive
ends stop "" stop_ends
ends stop "" resume_ends
asserts stop -DKICK_ONLY
asserts stop -DHANDLER_ONLY
fault stop EMPTY_HANDLER 'invalid end state'
fault stop CLEAR_LATE 'invalid end state'
fault stop NO_EPOCH arrived
fault stop STOP_UNDER_LOCK 'invalid end state'

asserts cut "" whole none_after at_most_one tombstone honest selective verified
claim cut no_old_grant
ends cut -DTURNS domains_end
fault cut SEVER_BEFORE_PATCH whole
fault cut NO_SECOND_LOOK whole
fault cut SKIP_CUT tombstone

asserts connect "" gate current complete one_round
asserts connect '-DFLUSH_AFTER_RAISE -DSHORT'
claim connect no_old_grant
ends connect -DSHORT all_end
fault connect NO_GATE complete
fault connect FLUSH_BEFORE_RAISE current
fault connect TAKE_STALE current
fault connect STOP_UNDER_LOCK 'invalid end state'

asserts wait "" runnable accounting delivered
asserts wait -DSHARED runnable accounting delivered
ends wait -DSHORT all_end
fault wait WAIT_WITHOUT_COUNT 'invalid end state'
fault wait LOOK_BEFORE_BLOCKED 'invalid end state' -DSHORT
fault wait LOOK_BEFORE_WANTS 'invalid end state' -DSHORT
fault wait WAKE_BEFORE_COUNT runnable
fault wait NO_WAKE 'invalid end state'

asserts doorbell "" unheard delivered balanced
asserts doorbell -DBOTH_OPEN unheard delivered balanced
fault doorbell UNBIND_WITH_ANY 'invalid end state' -DBOTH_OPEN
fault doorbell PUBLISH_BEFORE_BIND 'invalid end state'
fault doorbell MARK_LAST 'invalid end state'
fault doorbell REPORT_BEFORE_UNBIND unheard
fault doorbell RING_UNHEARD 'invalid end state'
fault doorbell NO_WAKE 'invalid end state' -DBOTH_OPEN

asserts backlog "" unseen delivered held returned
fault backlog NO_SECOND_LOOK 'invalid end state'
fault backlog RECORD_FIRST unseen
fault backlog CLOSE_FORGETS delivered
fault backlog CLOSE_FREES held
fault backlog NO_WAKE 'invalid end state'
fault backlog NO_SWEEP returned

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
