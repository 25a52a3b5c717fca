/*
 * What an end's inbox slot shows, over every state of a channel: pure, without a guest.
 */
#include "monitor/channel.h"

#include <criterion/criterion.h>

#include "monitor/channel_memory.h"

/* Two slots are three mappings at worst (guest_build.c counts on it): never a header alone at both ends. */
Test(channel, at_most_one_end_shows_a_header_alone)
{
	static const enum flow_state states[] = {FLOW_DENIED, FLOW_OPEN, FLOW_CUT, FLOW_CLOSED};
	static const enum end_fate fates[] = {END_NEW, END_HELD, END_CLOSED, END_DIED};
	unsigned n_headers = 0;

	for (unsigned i = 0; i < 4 * 4 * 4 * 4 * 4; i++) {
		struct channel channel = {0};

		channel.flow[0].state = states[i % 4];
		channel.flow[1].state = states[i / 4 % 4];
		channel.end[0].fate = fates[i / 16 % 4];
		channel.end[1].fate = fates[i / 64 % 4];
		channel.flow[0].flowctl = i / 256 % 2;
		channel.flow[1].flowctl = i / 512 % 2;
		enum window_part client = channel_part(&channel, SIDE_CLIENT);
		enum window_part server = channel_part(&channel, SIDE_SERVER);

		cr_assert_not(client == WINDOW_HEADER && server == WINDOW_HEADER, "state %u", i);
		n_headers += client == WINDOW_HEADER || server == WINDOW_HEADER;
	}
	cr_expect_gt(n_headers, 0);
}
