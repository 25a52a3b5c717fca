/* examples/levels does what its first lines say. */
#include <signal.h>
#include <string.h>

#include "tests/monitor/cli_child.h"
#include "tests/monitor/world.h"

Test(flow, example_levels)
{
	struct child child;

	need_kvm();
	child = START("run", "examples/levels/levels.conf", "--socket", test_path("levels"));
	child_await(&child, "levels/sensor: writing to reports");
	child_await(&child, "levels/desk: answering: not open");
	child_await(&child, "levels/desk: 50 read");
	child_await(&child, "levels/mole: board: denied");
	child_signal(&child, SIGINT);
	child_finish(&child);
	EXPECT(child, 0, "levels/desk: 50 read");
}

Test(flow, example_levels_is_well_formed)
{
	struct child child;

	child = RUN("check", "examples/levels/levels.conf");
	EXPECT(child, 0, "");
}
