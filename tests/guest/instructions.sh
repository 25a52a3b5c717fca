#!/bin/sh
# The kernel's object code holds no instruction that KVM's emulator lacks (docs: some hosts
# run ring 0 in it), and none that touches a vector register. Prints what it found; status 1 then.
# usage: instructions.sh build/kernel.elf
set -eu

forbidden='popcnt|sysret[ql]?|xsave[a-z0-9]*|xrstor[a-z0-9]*|xgetbv|xsetbv|rdtscp|stac|clac|invpcid|verw|crc32.?|movbe|monitor|mwait|andn|bextr|bls[a-z]*|tzcnt|lzcnt|pdep|pext|[sr]arx|shlx|int[0-9o]*'
code=$(objdump -d --no-show-raw-insn "$1")
found=$(printf '%s\n' "$code" | grep -E "^[^a-z]*[0-9a-f]+:[[:space:]]+(lock |rep[nz]* )?($forbidden)([[:space:]]|\$)|%[xyz]mm|%st" || true)
if [ -n "$found" ]; then
	printf '%s\n' "$found"
	exit 1
fi
printf '%s\n' "$code" | grep -q iretq # or the pattern looked at nothing
