#include "monitor/cli.h"

#define MANY 0xffffu

#define POLICY_OPTION                                                                                        \
	{                                                                                                    \
		"--policy", "FILE", "a policy source (CIL), or one binary policy; may be given again"        \
	}
#define STOP_OPTION                                                                                          \
	{                                                                                                    \
		"--stop", "MODE", "whose vCPUs a change stops: all (default), affected, none"                \
	}
#define PATIENCE_OPTION                                                                                      \
	{                                                                                                    \
		"--deadline", "SECONDS", "how long --until may wait, for a monitor to appear too (10)"       \
	}
#define PLAN_OPTION                                                                                          \
	{                                                                                                    \
		"--plan", NULL, "show what it would cut, and why; change nothing"                            \
	}
#define FORCE_OPTION                                                                                         \
	{                                                                                                    \
		"--force", NULL, "also if you could then not change it back"                                 \
	}
#define CHANGE_OPTIONS PLAN_OPTION, STOP_OPTION, FORCE_OPTION
#define RUN_OPTIONS                                                                                          \
	{"--policy", "FILE", "replaces the manifest's policy; may be given again"},                          \
		{"--data", "[GUEST/]DOMAIN=FILE", "the data file of a domain"},                              \
		{"--programs", "DIR", "where programs without a slash are: DIR/NAME.elf"}, STOP_OPTION,      \
		{"--deadline", "SECONDS", "for a stop, and for an answer about policy (10)"},                \
		{"--quiet", NULL, "does not print what domains log"},                                        \
		{"--libvirt-socket", "PATH",                                                                 \
	         "serves virsh at PATH and PATH-ro; PATH may be system, or none"},                           \
		{"--images", "DIR", "libvirt's clients may define guests of manifests beneath it"},          \
	{                                                                                                    \
		"--kvm", "PATH", NULL                                                                        \
	}

const struct cli_verb cli_verbs[] = {
	{
		.name = "run",
		.operands = "MANIFEST...",
		.least = 1,
		.most = MANY,
		.summary = "start the guests of a manifest and serve until they have ended",
		.help = "Prints what domains log as guest/domain: text on standard error. Ends\n"
			"with 0 when every domain has exited with 0, or when it is told to stop\n"
			"(Ctrl-C); with 1 when one failed. Meanwhile the other verbs reach it\n"
			"over its control socket.",
		.shared = CLI_SOCKET,
		.options = {RUN_OPTIONS},
		.launches = true,
		.run = cli_run,
	},
	{
		.name = "serve",
		.operands = "[MANIFEST...]",
		.most = MANY,
		.summary = "as run, but goes on when the last guest has ended",
		.help = "Without a manifest it starts with a policy alone (--policy).",
		.shared = CLI_SOCKET,
		.options = {RUN_OPTIONS},
		.launches = true,
		.run = cli_serve,
	},
	{
		.name = "check",
		.operands = "[MANIFEST...]",
		.most = MANY,
		.summary = "check a manifest and a policy, without KVM",
		.help = "Finds what run would refuse: mistakes in the manifest, missing programs,\n"
			"errors in the policy, contexts that the policy does not know. Warns of\n"
			"domains that share a vCPU though policy does not let them talk both\n"
			"ways: a shared vCPU is a channel of its own (timing, caches, on some\n"
			"hosts wide registers). Without a manifest it checks a policy (--policy).",
		.shared = CLI_JSON,
		.options = {POLICY_OPTION,
                            {"--data", "[GUEST/]DOMAIN=FILE", "the data file of a domain"},
                            {"--programs", "DIR", "where programs without a slash are: DIR/NAME.elf"}},
		.launches = true,
		.run = cli_check,
	},
	{
		.name = "policy push",
		.operands = "FILE...",
		.least = 1,
		.most = MANY,
		.summary = "put a policy in force; cut what it no longer allows",
		.help = "The files are CIL sources that are compiled together, or one binary\n"
			"policy. When the verb returns, every cut is complete. A policy that\n"
			"cannot be compiled changes nothing.",
		.shared = CLI_JSON | CLI_SOCKET,
		.options = {STOP_OPTION, {"--force", NULL, "also if you could then push no policy any more"}},
		.run = cli_policy_push,
	},
	{
		.name = "policy plan",
		.operands = "FILE...",
		.least = 1,
		.most = MANY,
		.summary = "show what a push would cut, and why; change nothing",
		.help = "The answer is exact for the channels that are open now.",
		.shared = CLI_JSON | CLI_SOCKET,
		.options = {STOP_OPTION},
		.run = cli_policy_plan,
	},
	{
		.name = "policy show",
		.most = 0,
		.summary = "show the policy in force, or save it for other tools",
		.help = "--output saves the binary policy, which sesearch, seinfo and audit2allow\n"
			"-p read.",
		.shared = CLI_JSON | CLI_SOCKET,
		.options = {{"--output", "FILE", "saves the binary policy there"}},
		.run = cli_policy_show,
	},
	{
		.name = "policy query",
		.operands = "SOURCE TARGET CLASS [PERMISSION]",
		.least = 3,
		.most = 4,
		.summary = "ask what SOURCE may do to TARGET",
		.help = "SOURCE and TARGET are contexts (user:role:type:level), or domains of a\n"
			"running guest (NAME or GUEST/NAME). Asks the policy in force; with\n"
			"--policy those files, without a monitor.",
		.shared = CLI_JSON | CLI_SOCKET,
		.options = {POLICY_OPTION},
		.launches = true,
		.run = cli_policy_query,
	},
	{
		.name = "policy explain",
		.operands = "SOURCE TARGET CLASS PERMISSION",
		.least = 4,
		.most = 4,
		.summary = "say why SOURCE may not do that to TARGET",
		.help = "As policy query, for one permission: names the rule that is missing or\n"
			"the constraint that forbids it.",
		.shared = CLI_JSON | CLI_SOCKET,
		.options = {POLICY_OPTION},
		.launches = true,
		.run = cli_policy_explain,
	},
	{
		.name = "policy bool",
		.operands = "[NAME on|off]",
		.most = 2,
		.summary = "list the policy's booleans, or set one and cut what that forbids",
		.help = "A boolean that was set keeps its value over pushes, as long as the\n"
			"policy has it.",
		.shared = CLI_JSON | CLI_SOCKET,
		.options = {CHANGE_OPTIONS},
		.run = cli_policy_bool,
	},
	{
		.name = "policy enforce",
		.operands = "on|off",
		.least = 1,
		.most = 1,
		.summary = "enforce the policy, or only report what it would deny",
		.help = "Turning it on cuts at once what was opened meanwhile against the policy.",
		.shared = CLI_JSON | CLI_SOCKET,
		.options = {CHANGE_OPTIONS},
		.run = cli_policy_enforce,
	},
	{
		.name = "policy revoke",
		.operands = "SOURCE TARGET CLASS PERMISSION",
		.least = 4,
		.most = 4,
		.summary = "take single permissions back, whatever the policy says",
		.help = "SOURCE and TARGET are contexts, types, or * for any; PERMISSION may be *\n"
			"too. It only narrows, survives pushes, and is listed by policy show.",
		.shared = CLI_JSON | CLI_SOCKET,
		.options = {{"--try", NULL, "show what it would cut; change nothing"}, CHANGE_OPTIONS},
		.run = cli_policy_revoke,
	},
	{
		.name = "policy grant",
		.operands = "SOURCE TARGET CLASS PERMISSION",
		.least = 4,
		.most = 4,
		.summary = "end a policy revoke of the same words",
		.help = "It removes what a revoke took back. What the policy denies it cannot\n"
			"give.",
		.shared = CLI_JSON | CLI_SOCKET,
		.options = {{"--try", NULL, "show what it would cut; change nothing"}, CHANGE_OPTIONS},
		.run = cli_policy_grant,
	},
	{
		.name = "policy reset",
		.most = 0,
		.summary = "end every policy revoke, and check everything again",
		.shared = CLI_JSON | CLI_SOCKET,
		.options = {CHANGE_OPTIONS},
		.run = cli_policy_reset,
	},
	{
		.name = "guest list",
		.most = 0,
		.summary = "list guests with their states and counters",
		.shared = CLI_JSON | CLI_SOCKET,
		.run = cli_guest_list,
	},
	{
		.name = "guest start",
		.operands = "MANIFEST|GUEST",
		.least = 1,
		.most = 1,
		.summary =
			"start the guests of a manifest, or a guest that has ended, while the monitor runs",
		.help = "What the manifest says of policy, clients, audit, stop and deadline is not\n"
			"looked at: the monitor has them. Its files are read here. A guest that is\n"
			"started again begins anew: nothing is left of its channels.",
		.shared = CLI_JSON | CLI_SOCKET,
		.options = {{"--data", "[GUEST/]DOMAIN=FILE", "the data file of a domain"},
                            {"--programs", "DIR", "where programs without a slash are: DIR/NAME.elf"},
                            {"--paused", NULL, "suspended before its first instruction"}},
		.run = cli_guest_start,
	},
	{
		.name = "guest stop",
		.operands = "GUEST",
		.least = 1,
		.most = 1,
		.summary = "stop a guest; its channels close",
		.shared = CLI_JSON | CLI_SOCKET,
		.options = {{"--force", NULL, "as if each of its domains had died"}},
		.run = cli_guest_stop,
	},
	{
		.name = "guest suspend",
		.operands = "GUEST",
		.least = 1,
		.most = 1,
		.summary = "stop its vCPUs; a push cuts its channels all the same",
		.shared = CLI_JSON | CLI_SOCKET,
		.run = cli_guest_suspend,
	},
	{
		.name = "guest resume",
		.operands = "GUEST",
		.least = 1,
		.most = 1,
		.summary = "let a suspended guest go on",
		.shared = CLI_JSON | CLI_SOCKET,
		.run = cli_guest_resume,
	},
	{
		.name = "guest undefine",
		.operands = "GUEST",
		.least = 1,
		.most = 1,
		.summary = "forget a guest that does not run",
		.shared = CLI_JSON | CLI_SOCKET,
		.run = cli_guest_undefine,
	},
	{
		.name = "domain list",
		.most = 0,
		.summary = "list domains with their contexts, services and states",
		.shared = CLI_JSON | CLI_SOCKET,
		.run = cli_domain_list,
	},
	{
		.name = "domain relabel",
		.operands = "DOMAIN CONTEXT",
		.least = 2,
		.most = 2,
		.summary = "give a domain another context; cut what that may not have",
		.shared = CLI_JSON | CLI_SOCKET,
		.options = {CHANGE_OPTIONS},
		.run = cli_domain_relabel,
	},
	{
		.name = "domain quarantine",
		.operands = "DOMAIN",
		.least = 1,
		.most = 1,
		.summary = "cut a domain off from everything, and refuse it everything new",
		.shared = CLI_JSON | CLI_SOCKET,
		.options = {CHANGE_OPTIONS},
		.run = cli_domain_quarantine,
	},
	{
		.name = "domain release",
		.operands = "DOMAIN",
		.least = 1,
		.most = 1,
		.summary = "end a quarantine: new connects are decided by policy again",
		.shared = CLI_JSON | CLI_SOCKET,
		.options = {CHANGE_OPTIONS},
		.run = cli_domain_release,
	},
	{
		.name = "channel list",
		.most = 0,
		.summary = "list channels: who is connected to whom, and what flows",
		.help = "One line per direction: --> open, -x> cut by a change, -/> never\n"
			"allowed, -.> closed, ... not accepted yet.",
		.shared = CLI_JSON | CLI_SOCKET,
		.options = {{"--until", "N", "waits until N channels are open"}, PATIENCE_OPTION},
		.run = cli_channel_list,
	},
	{
		.name = "channel cut",
		.operands = "CHANNEL",
		.least = 1,
		.most = 1,
		.summary = "cut one channel; a new connect is decided by policy",
		.shared = CLI_JSON | CLI_SOCKET,
		.options = {CHANGE_OPTIONS},
		.run = cli_channel_cut,
	},
	{
		.name = "status",
		.most = 0,
		.summary = "show policy number, guests and counters",
		.shared = CLI_JSON | CLI_SOCKET,
		.options = {{"--until", "running", "waits until a monitor answers and its guests run"},
                            PATIENCE_OPTION},
		.run = cli_status,
	},
	{
		.name = "audit",
		.most = 0,
		.summary = "show the newest lines of the audit trail",
		.help = "Denials are AVC lines: portcullis audit | audit2allow -p FILE makes\n"
			"rules of them, FILE being what policy show --output saved.",
		.shared = CLI_JSON | CLI_SOCKET,
		.options = {{"--lines", "N", "at most so many (100; 4096 are kept)"},
                            {"--after", "SERIAL", "only lines after that one"},
                            {"--until", "TEXT", "goes on until a line holds TEXT"},
                            PATIENCE_OPTION},
		.run = cli_audit,
	},
	{
		.name = "shutdown",
		.most = 0,
		.summary = "stop the guests and end the monitor",
		.shared = CLI_JSON | CLI_SOCKET,
		.run = cli_shutdown,
	},
	{
		.name = "doctor",
		.most = 0,
		.summary = "say whether guests can run here, and what is missing",
		.help = "Checks /dev/kvm, what KVM can do, limits of the kernel, that a security\n"
			"server starts, and that a cut takes memory away from a running guest\n"
			"(200 times, with a control that must fail).",
		.shared = CLI_JSON,
		.options = {{"--kvm", "PATH", NULL}, {"--rounds", "N", NULL}},
		.launches = true,
		.run = cli_doctor,
	},
};

const size_t cli_n_verbs = sizeof(cli_verbs) / sizeof(cli_verbs[0]);
