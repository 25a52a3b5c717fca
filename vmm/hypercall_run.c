/* Serves hypercalls: decoded requests go to the owner; log lines, faults and panics end here. */
#include "vmm/check.h"
#include "vmm/futex.h"
#include "vmm/hypercall.h"
#include "vmm/log_line.h"
#include "vmm/vcpu.h"

static void count(uint64_t *counter)
{
	__atomic_store_n(counter, *counter + 1, __ATOMIC_RELAXED);
}

static const struct call_page *call_page_of(const struct machine *machine, uint32_t domain)
{
	return (const struct call_page *)(machine->ram + machine->layout.domain[domain].call.gpa);
}

static int64_t ask_owner(struct vcpu *vcpu, const struct guest_request *request)
{
	const struct machine *machine = vcpu->machine;

	return machine->handlers.request == NULL ? CALL_OK
	                                         : machine->handlers.request(machine->owner, request);
}

static int64_t serve_connect(struct vcpu *vcpu, struct guest_request *request)
{
	if (hypercall_text(call_page_of(vcpu->machine, request->domain), request) != CALL_OK ||
	    !hypercall_is_name(request->text, request->argument[0])) {
		count(&vcpu->counters.refused);
		return CALL_BAD_ARGUMENT;
	}
	return ask_owner(vcpu, request);
}

static int64_t serve_log(struct vcpu *vcpu, struct guest_request *request)
{
	const struct machine *machine = vcpu->machine;
	struct domain_run *domain = &vcpu->machine->domain[request->domain];
	char line[MAX_LOG_BYTES + 1];

	if (!bucket_take(&domain->log, monotonic_ns(), LOG_LINES_PER_SECOND, LOG_LINES_BURST)) {
		domain->n_lost++;
		count(&vcpu->counters.log_lines_lost);
		return CALL_OK;
	}
	if (hypercall_text(call_page_of(machine, request->domain), request) != CALL_OK) {
		count(&vcpu->counters.refused);
		return CALL_BAD_ARGUMENT;
	}
	log_line_clean(request->text, request->argument[0], line);
	if (machine->handlers.log != NULL)
		machine->handlers.log(machine->owner, request->domain, line, domain->n_lost);
	domain->n_lost = 0;
	return CALL_OK;
}

static int64_t serve_exit(struct vcpu *vcpu, const struct guest_request *request)
{
	vcpu->machine->domain[request->domain].ended = true;
	return ask_owner(vcpu, request);
}

static int64_t serve_fault(struct vcpu *vcpu, const struct guest_request *request)
{
	const struct machine *machine = vcpu->machine;
	struct machine_crash crash;

	vcpu->machine->domain[request->domain].ended = true;
	crash_describe_fault(machine, request, &crash);
	if (machine->handlers.crashed != NULL)
		machine->handlers.crashed(machine->owner, &crash);
	return CALL_OK;
}

static int64_t serve_ready(struct vcpu *vcpu, const struct guest_request *request)
{
	if (vcpu->ready) {
		count(&vcpu->counters.refused);
		return CALL_BAD_ARGUMENT;
	}
	vcpu->ready = true;
	return ask_owner(vcpu, request);
}

static int64_t serve(struct vcpu *vcpu, struct guest_request *request)
{
	switch (request->call) {
	case HYPERCALL_CONNECT:
		return serve_connect(vcpu, request);
	case HYPERCALL_ACCEPT:
	case HYPERCALL_CLOSE:
	case HYPERCALL_INFO:
		return ask_owner(vcpu, request);
	case HYPERCALL_LOG:
		return serve_log(vcpu, request);
	case HYPERCALL_EXIT:
		return serve_exit(vcpu, request);
	case HYPERCALL_FAULT:
		return serve_fault(vcpu, request);
	case HYPERCALL_READY:
		return serve_ready(vcpu, request);
	case HYPERCALL_PANIC:
		break;
	}
	CHECK(false);
}

static bool panic(struct vcpu *vcpu, const struct guest_request *request)
{
	struct machine_crash crash;

	crash_describe_fault(vcpu->machine, request, &crash);
	machine_crashed(vcpu->machine, &crash);
	return false;
}

/* False: the vCPU is to leave. */
static bool answer(struct vcpu *vcpu, const struct hypercall_words *words)
{
	struct guest_request request;
	int64_t result = hypercall_decode(words, &vcpu->machine->layout, vcpu->index, &request);

	if (result == CALL_OK && request.domain != NO_DOMAIN && vcpu->machine->domain[request.domain].ended)
		result = CALL_BAD_ARGUMENT;
	if (result != CALL_OK)
		count(&vcpu->counters.refused);
	else if (request.call == HYPERCALL_PANIC)
		return panic(vcpu, &request);
	else
		result = serve(vcpu, &request);
	__atomic_store_n(&vcpu->hypercall->result, result, __ATOMIC_RELEASE);
	return true;
}

bool vcpu_hypercall(struct vcpu *vcpu)
{
	const struct call_watch *watch = __atomic_load_n(&vcpu->machine->watch, __ATOMIC_ACQUIRE);
	uint64_t begun = watch != NULL ? monotonic_ns() : 0;
	struct hypercall_words words;
	bool stays;

	count(&vcpu->counters.hypercalls);
	hypercall_read(vcpu->hypercall, &words);
	stays = answer(vcpu, &words);
	if (watch != NULL)
		watch->answered(watch->opaque, words.raw_call, begun, monotonic_ns());
	return stays;
}
