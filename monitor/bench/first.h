/*
 * How long a process of this program takes from its exec to the first instruction of a domain: `portcullis
 * run` as anybody starts it, with files of its own, seen from outside. One thread.
 */
#ifndef PORTCULLIS_MONITOR_BENCH_FIRST_H
#define PORTCULLIS_MONITOR_BENCH_FIRST_H

#include "guest/abi/limits.h"

/* A guest of so many vCPUs and so much memory, with a domain on each (guest/programs/first.c). */
#define FIRST_VCPUS 2u
#define FIRST_MIB 64u

struct first;

/* Writes manifest and policy into a folder of their own. program_dir as in manifest.h. -errno and a line. */
int first_create(const char *program_dir, struct first **first, char why[static WHY_BYTES]);

/* NULL is allowed. */
void first_destroy(struct first *first);

/*
 * Starts a process and ends it in order. *us: microseconds from before its start until a domain's line has
 * come through the pipe that is its standard error. The line is the domain's first system call; the exit, the
 * monitor's writer and the pipe are in it too. -errno and a line.
 */
int first_instruction(struct first *first, double *us, char why[static WHY_BYTES]);

#endif
