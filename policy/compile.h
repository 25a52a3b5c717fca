/*
 * From a policy's sources to its binary image.
 *
 * CIL sources are compiled together; a binary policy stands alone and is taken
 * as it is. Runs in the security server, which is made for being lost to a
 * hostile policy. libsepol keeps its state in globals: one thread, once.
 */
#ifndef PORTCULLIS_POLICY_COMPILE_H
#define PORTCULLIS_POLICY_COMPILE_H

#include <stddef.h>

#include "policy/complaints.h"

/*
 * The initial SID "operator" has this number in every image that is made
 * here: an image holds numbers, not names. In a binary policy made by other
 * tools it must be the fourth of the sidorder.
 */
#define OPERATOR_SID 4u

/*
 * 0 and the image (malloc), or -1 with the complaints filled.
 * When CIL runs out of memory it calls exit(1): see atexit.
 */
int policy_compile(const struct policy_text *sources, size_t n_sources, struct complaints *complaints,
                   void **image, size_t *image_bytes);

#endif
