#!/bin/sh
# Runs test programs and adds up what they say: tests/run.sh [-o LOG_DIR] PROGRAM...
# A Criterion suite closes with "Synthesis: ..."; any other program with "N passed, N failed".
# Suites that boot guests want both cores, so tests of one suite run one after the other.
set -u
logs=build/logs
[ "${1:-}" = -o ] && { logs=$2; shift 2; }
mkdir -p "$logs"
passed=0 failed=0 skipped=0
for program in "$@"; do
	name=$(basename "$program")
	log=$logs/$name.log
	case $name in
	tsan-*) "$program" >"$log" 2>&1 ;;
	*) timeout -k 10 900 "$program" -j1 --short-filename --color=never >"$log" 2>&1 ;;
	esac
	status=$?
	line=$(grep -E 'Synthesis:|^[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1)
	case $line in
	*Synthesis:*)
		all=$(echo "$line" | sed -E 's/.*Tested: ([0-9]+).*/\1/')
		good=$(echo "$line" | sed -E 's/.*Passing: ([0-9]+).*/\1/')
		skip=$(grep -c '^\[SKIP\]' "$log")
		bad=$((all - good))
		;;
	*passed*)
		good=$(echo "$line" | sed -E 's/^([0-9]+) passed.*/\1/')
		bad=$(echo "$line" | sed -E 's/.* ([0-9]+) failed.*/\1/')
		skip=0
		;;
	*) good=0 bad=1 skip=0 ;;
	esac
	[ $status -ne 0 ] && [ "$bad" -eq 0 ] && bad=1
	[ "$skip" -gt 0 ] && { grep '^\[SKIP\]' "$log"; [ "${CI:-}" = true ] && bad=$((bad + skip)); }
	if [ "$bad" -gt 0 ]; then
		printf '  FAIL    %-24s %s passed, %s failed (status %s); %s\n' "$name" "$good" "$bad" "$status" "$log"
		grep -vE '^\[(PASS|RUN |----)\]' "$log" | tail -n 60
	else
		printf '  ok      %-24s %s passed\n' "$name" "$good"
	fi
	passed=$((passed + good)) failed=$((failed + bad)) skipped=$((skipped + skip))
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
