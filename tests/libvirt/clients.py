"""Clients of libvirt against a running monitor; the tests in clients.c start it and name a function here.

    clients.py FUNCTION SOCKET CONTROL PORTCULLIS FOLDER

Nothing sleeps: each wait is for an event, a line, or an answer, with a deadline.
"""
import json
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

PATIENCE = 30
SOCKET, CONTROL, PORTCULLIS, FOLDER = sys.argv[2:6]
URI = "portcullis+unix:///system?socket=" + SOCKET
POLICY = ["policy/base.cil", "examples/demo/demo.cil"]
STRICT = ["policy/base.cil", "examples/demo/strict.cil"]
READ_ONLY = "portcullis+unix:///system?socket=" + SOCKET + "-ro"


# ---- virsh, portcullis ----

def run(*arguments, status=0):
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL)
    assert (done.returncode == 0) == (status == 0), (arguments, done)
    return done.stdout if status == 0 else done.stderr


def virsh(*arguments, status=0, uri=URI):
    return run("virsh", "-c", uri, *arguments, status=status).strip()


def portcullis(*arguments, status=0):
    return run(PORTCULLIS, *arguments, "--socket", CONTROL, status=status)


def expect(text, *parts):
    for part in parts:
        assert re.search(part, text, re.M), "%r is not in:\n%s" % (part, text)


def refused(text, *arguments, uri=URI):
    expect(virsh(*arguments, status=1, uri=uri), text)


class Events:
    """virsh event --all --loop: its lines."""

    def __init__(self):
        self.child = subprocess.Popen(["stdbuf", "-oL", "virsh", "-c", URI, "event", "--all", "--loop"],
                                      stdout=subprocess.PIPE, text=True)
        self.lines = []
        # It says nothing when it is ready: an event of our own making does. A reboot is the last of them.
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            virsh("suspend", "demo")
            virsh("resume", "demo")
            if self.wait_for("Resumed Unpaused", 1):
                break
        virsh("reboot", "demo")
        self.take("event 'reboot'")

    def read(self, seconds):
        if not select.select([self.child.stdout], [], [], seconds)[0]:
            return None
        line = os.read(self.child.stdout.fileno(), 65536).decode()
        self.lines += line.splitlines()
        return line

    def wait_for(self, text, seconds=PATIENCE):
        deadline = time.monotonic() + seconds
        while not any(text in line for line in self.lines):
            left = deadline - time.monotonic()
            if left <= 0 or self.read(left) == "":
                return False
        return True

    def take(self, text):
        assert self.wait_for(text), "%s: %s" % (text, self.lines)
        lines, self.lines = self.lines, []
        return [line.split("': ")[-1] for line in lines]

    def end(self):
        self.child.kill()
        self.child.wait()


# ---- what virsh shows ----

def looks():
    expect(virsh("list", "--all"), r"^ 1 +demo +running$")
    for flag, there in (("--inactive", False), ("--transient", False), ("--persistent", True), ("--state-running", True),
                        ("--state-paused", False), ("--state-shutoff", False), ("--state-other", False),
                        ("--with-managed-save", False), ("--without-managed-save", True), ("--autostart", False),
                        ("--no-autostart", True), ("--with-snapshot", False), ("--without-snapshot", True)):
        listed = virsh("list", "--name", flag, *([] if flag == "--inactive" else ["--all"])).split()
        assert listed == (["demo"] if there else []), (flag, listed)
    expect(virsh("dominfo", "demo"), r"^OS Type: +portcullis$", r"^CPU\(s\): +2$", r"^Persistent: +yes$",
           r"^Security model: selinux$", r"^Security DOI: +0$",
           r"^Security label: system_u:system_r:server_t:s0 .* \(enforcing\)$")
    assert virsh("domstate", "demo", "--reason") == "running (booted)"
    assert virsh("domid", "demo") == "1"
    uuid = virsh("domuuid", "demo")
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", uuid), uuid
    assert virsh("domname", uuid) == "demo"
    assert virsh("domname", "1") == "demo"
    expect(virsh("vcpuinfo", "demo"), r"^VCPU: +1$", r"^State: +running$", r"^CPU Affinity: +y")
    expect(virsh("vcpucount", "demo"), r"^maximum +live +2$", r"^current +config +2$")
    expect(virsh("dommemstat", "demo"), r"^actual \d+$")
    expect(virsh("nodeinfo"), r"^CPU model: +x86_64$", r"^CPU\(s\): +\d+$")
    assert virsh("hostname") == socket.gethostname()
    expect(virsh("version"), r"^Running hypervisor: Portcullis \d")
    expect(virsh("capabilities"), r"<domain type='portcullis'/>", r"<model>selinux</model>")
    assert virsh("uri") == URI
    expect(virsh("dumpxml", "demo"), r"<domain type='portcullis' id='1'>", r"<vcpu placement='static'>2</vcpu>",
           r"<portcullis:guest xmlns:portcullis='urn:portcullis:guest' manifest='.*demo.conf'>",
           r"<portcullis:domain name='client' context='system_u:system_r:client_t:s0'")
    expect(virsh("domstats", "demo"), r"state.state=1$", r"cpu.time=\d+$", r"vcpu.current=2$", r"vcpu.1.time=\d+$",
           r"portcullis.channel.count=\d+$", r"portcullis.channel.messages_sent=\d+$", r"portcullis.avc.hits=\d+$",
           r"portcullis.policy_number=1$")
    only = virsh("domstats", "--state")
    assert "cpu.time" not in only and "state.reason=1" in only, only
    assert virsh("domstats", "--list-shutoff") == ""
    assert virsh("domcontrol", "demo") == "ok"
    assert " id=" not in virsh("dumpxml", "demo", "--inactive").splitlines()[0]
    # A flag that was set by a change: the label follows, and enforcing does.
    portcullis("policy", "enforce", "off")
    expect(virsh("dominfo", "demo"), r"\(permissive\)$")
    portcullis("policy", "enforce", "on")
    # What there is not is said so.
    for words in (["snapshot-list", "demo"], ["save", "demo", FOLDER + "/x"], ["pool-list"], ["net-list"]):
        refused("not supported", *words)
    refused('there is no guest "nobody"|failed to get domain', "dominfo", "nobody")


def texts():
    assert virsh("desc", "demo") .startswith("No description")
    virsh("desc", "demo", "a <guest> & more")
    virsh("desc", "demo", "--title", "its title")
    assert virsh("desc", "demo") == "a <guest> & more"
    refused("control characters", "desc", "demo", "red \x1b[31m")
    assert virsh("desc", "demo", "--title") == "its title"
    expect(virsh("dumpxml", "demo"), r"<description>a &lt;guest&gt; &amp; more</description>")
    expect(virsh("list", "--title"), "its title")
    virsh("metadata", "demo", "--uri", "urn:x", "--key", "x", "--set", "<a b='c'>d</a>")
    assert virsh("metadata", "demo", "--uri", "urn:x") == "<a b='c'>d</a>"
    expect(virsh("dumpxml", "demo"), r"<a xmlns='urn:x' b='c'>d</a>")
    virsh("metadata", "demo", "--uri", "urn:x", "--remove")
    refused("none of it", "metadata", "demo", "--uri", "urn:x")
    refused("XML|line|mismatched", "metadata", "demo", "--uri", "urn:x", "--key", "x", "--set", "<a>")
    refused("define it anew", "metadata", "demo", "--uri", "urn:portcullis:guest", "--key", "x", "--set", "<a/>")
    expect(virsh("metadata", "demo", "--uri", "urn:portcullis:guest"), "<portcullis:guest")


# ---- life ----

def life():
    uuid = virsh("domuuid", "demo")
    events = Events()
    virsh("suspend", "demo")
    assert virsh("domstate", "demo", "--reason") == "paused (user)"
    virsh("suspend", "demo")  # no error, as with other drivers
    virsh("resume", "demo")
    assert virsh("domstate", "demo", "--reason") == "running (unpaused)"
    refused("running", "resume", "demo")
    assert events.take("Resumed Unpaused") == ["Suspended Paused", "Resumed Unpaused"]

    virsh("shutdown", "demo")
    assert events.take("Stopped Shutdown") == ["Shutdown Finished after host request", "Stopped Shutdown"]
    assert virsh("domstate", "demo", "--reason") == "shut off (shutdown)"
    refused("does not run", "shutdown", "demo")
    expect(virsh("list", "--all"), r"^ - +demo +shut off$")
    virsh("start", "demo")
    number = int(virsh("domid", "demo"))
    virsh("reboot", "demo")
    assert int(virsh("domid", "demo")) == number + 1
    assert "event 'reboot' for domain 'demo'" in events.take("event 'reboot'")
    virsh("destroy", "demo")
    assert virsh("domstate", "demo", "--reason") == "shut off (destroyed)"
    events.take("Stopped Destroyed")
    virsh("start", "demo", "--paused")
    expect(virsh("domstate", "demo"), "paused")
    # P10: what is stopped can be ended.
    virsh("destroy", "demo")
    virsh("start", "demo")
    events.take("Started Booted")

    # Not only virsh makes events; a quarantine makes none.
    portcullis("domain", "quarantine", "demo/kept")
    portcullis("domain", "release", "demo/kept")
    portcullis("guest", "stop", "demo")
    taken = events.take("Stopped Shutdown")
    assert len(taken) == 2 and taken[1] == "Stopped Shutdown", taken
    assert virsh("domuuid", "demo") == uuid
    virsh("undefine", "demo")
    events.take("Undefined Removed")
    assert virsh("list", "--all", "--name") == ""
    events.end()


def define():
    images = FOLDER + "/images"

    def xml(name, manifest, more=""):
        path = FOLDER + "/guest.xml"
        with open(path, "w") as file:
            file.write("<domain type='portcullis'><name>%s</name>%s<metadata><portcullis:guest "
                       "xmlns:portcullis='urn:portcullis:guest' manifest='%s'/></metadata></domain>"
                       % (name, more, manifest))
        return path

    virsh("destroy", "demo")
    virsh("undefine", "demo")
    virsh("define", xml("demo", "demo.conf", "<title>here</title>"))
    assert virsh("domstate", "demo", "--reason") == "shut off (unknown)"
    expect(virsh("list", "--all", "--title"), "here")
    uuid = virsh("domuuid", "demo")
    virsh("start", "demo")
    expect(virsh("dominfo", "demo"), "^State: +running")
    refused("cannot undefine domain 'demo' while it is active", "undefine", "demo")
    refused("active|running|exists", "define", xml("demo", "demo.conf"))
    virsh("destroy", "demo")
    # What dumpxml wrote can be read again, and is the same guest.
    with open(FOLDER + "/dump.xml", "w") as file:
        file.write(virsh("dumpxml", "demo"))
    virsh("define", FOLDER + "/dump.xml")
    assert virsh("domuuid", "demo") == uuid
    run("env", "EDITOR=true", "virsh", "-c", URI, "edit", "demo")
    # A guest for one run.
    virsh("create", xml("two", "two.conf", "<uuid>00112233-4455-6677-8899-aabbccddeeff</uuid>"))
    assert virsh("list", "--transient", "--name") == "two"
    assert virsh("domuuid", "two") == "00112233-4455-6677-8899-aabbccddeeff"
    refused("transient", "reboot", "two")
    virsh("destroy", "two")
    assert virsh("list", "--all", "--name") == "demo"

    # Files: beneath the directory, and nowhere else.
    os.symlink("demo.conf", images + "/link.conf")
    os.symlink("/etc", images + "/way")
    for manifest, why in (("../guest.xml", "leads out"), ("link.conf", "link"), ("way/passwd", "link"),
                          ("/etc/passwd", "leads out"), ("none.conf", "No such file"), (".", "regular file"),
                          ("outside.conf", "leads out")):
        refused(why, "define", xml("x", manifest))
    os.unlink(images + "/link.conf")
    os.unlink(images + "/way")
    refused("has no guest", "define", xml("other", "demo.conf"))
    refused("document type", "define", FOLDER + "/entities.xml")
    refused("at most 65536 bytes", "define", FOLDER + "/long.xml")
    refused("lacks|does not know|unknown", "start", virsh_defined(xml("stranger", "stranger.conf"), "stranger"))
    assert virsh("list", "--name") == ""


def virsh_defined(path, name):
    virsh("define", path)
    return name


# ---- console ----

class Console:
    """virsh console on a terminal of its own."""

    def __init__(self):
        self.shown = b""
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.execvp("virsh", ["virsh", "-c", URI, "console", "demo"])
        self.until(b"Escape character")

    def read(self):
        """False: it has ended."""
        try:
            more = os.read(self.terminal, 4096)
        except OSError:
            more = b""
        self.shown += more
        return bool(more)

    def until(self, text):
        deadline = time.monotonic() + PATIENCE
        while text not in self.shown:
            left = deadline - time.monotonic()
            assert left > 0 and select.select([self.terminal], [], [], left)[0] and self.read(), self.shown

    def end(self):
        while self.read():
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def console():
    virsh("destroy", "demo")
    virsh("start", "demo", "--paused")
    terminal = Console()
    virsh("resume", "demo")
    terminal.until(b"server: serving echo\r\n")
    terminal.until(b"client: connected to echo\r\n")
    os.write(terminal.terminal, b"what a client types goes nowhere\r")
    portcullis("policy", "push", *POLICY)
    virsh("shutdown", "demo")
    assert terminal.end() == 0, terminal.shown
    refused("not running", "console", "demo")


def rights_that_go():
    """Console and events are asked about when lines and events come, not only at first."""
    virsh("shutdown", "demo")
    virsh("start", "demo", "--paused")
    terminal = Console()
    rule = ["operator_t", "server_t", "domain", "console"]
    portcullis("policy", "revoke", *rule)
    virsh("resume", "demo")
    terminal.until(b"access denied: ")
    terminal.end()
    assert b"serving echo" not in terminal.shown, terminal.shown
    with Wire() as wire:
        wire.open()
        status, body = wire.call(201, wire.domain() + struct.pack(">II", 0, 0))
        assert status == 1 and b"domain { console }" in body, body
    portcullis("policy", "reset")

    events = Events()
    rule = ["operator_t", "operator_t", "guest", "getattr"]
    with Wire() as wire:
        wire.open()
        domain = wire.domain()
        portcullis("policy", "revoke", *rule)
        assert wire.call(34, domain) == (0, b"")
        portcullis("policy", "reset")
        assert wire.call(28, domain) == (0, b"")
        assert not events.wait_for("Suspended", 0.2) and not events.lines, events.lines
    events.end()


# ---- python3-libvirt, exporter, collectd ----

def python():
    import libvirt
    libvirt.registerErrorHandler(lambda context, error: None, None)
    libvirt.virEventRegisterDefaultImpl()
    heard, stop = [], False

    def loop():
        while not stop:
            libvirt.virEventRunDefaultImpl()

    thread = threading.Thread(target=loop, daemon=True)
    thread.start()
    connection = libvirt.open(URI)
    connection.setKeepAlive(1, 3)
    changed = threading.Condition()

    def on_life(_connection, domain, event, detail, _opaque):
        with changed:
            heard.append((domain.name(), event, detail))
            changed.notify()

    only_demo = []

    def on_demo(_connection, _domain, event, _detail, _opaque):
        with changed:
            only_demo.append(event)
            changed.notify()

    connection.domainEventRegisterAny(connection.lookupByName("demo"), libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE, on_demo,
                                      None)
    handle = connection.domainEventRegisterAny(None, libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE, on_life, None)
    assert connection.getType() == "Portcullis" and connection.isAlive() == 1
    assert connection.getLibVersion() > 9000000 - 1
    demo = connection.lookupByName("demo")
    assert demo.info()[0] == libvirt.VIR_DOMAIN_RUNNING and demo.info()[3] == 2
    assert demo.state() == [libvirt.VIR_DOMAIN_RUNNING, libvirt.VIR_DOMAIN_RUNNING_BOOTED]
    assert len(demo.vcpus()[0]) == 2 and demo.securityLabel()[1]
    assert len(demo.securityLabelList()) == 5
    assert [record[0].name() for record in connection.getAllDomainStats()] == ["demo"]
    demo.suspend()
    demo.resume()
    with changed:
        assert changed.wait_for(lambda: len(heard) >= 2 and len(only_demo) >= 2, PATIENCE), (heard, only_demo)
    assert heard == [("demo", libvirt.VIR_DOMAIN_EVENT_SUSPENDED, libvirt.VIR_DOMAIN_EVENT_SUSPENDED_PAUSED),
                     ("demo", libvirt.VIR_DOMAIN_EVENT_RESUMED, libvirt.VIR_DOMAIN_EVENT_RESUMED_UNPAUSED)]
    assert only_demo == [event for _, event, _ in heard]
    try:
        demo.snapshotNum()
        assert False
    except libvirt.libvirtError as error:
        assert error.get_error_code() == libvirt.VIR_ERR_NO_SUPPORT, error
    # Many threads on one connection: answers find their calls.
    failures = []

    def ask():
        for _ in range(50):
            if connection.lookupByName("demo").UUIDString() != demo.UUIDString():
                failures.append("uuid")

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(PATIENCE)
    assert not failures
    connection.domainEventDeregisterAny(handle)
    read_only = libvirt.openReadOnly(URI)
    assert read_only.lookupByName("demo").isActive()
    connection.close()
    read_only.close()
    stop = True


def exporter():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    child = subprocess.Popen(["prometheus-libvirt-exporter", "--web.listen-address=127.0.0.1:%d" % port,
                              "--libvirt.uri=" + READ_ONLY], stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        text, deadline = "", time.monotonic() + PATIENCE
        while "libvirt_up 1" not in text and time.monotonic() < deadline:
            try:
                with socket.create_connection(("127.0.0.1", port), PATIENCE) as web:
                    web.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
                    text = b"".join(iter(lambda: web.recv(65536), b"")).decode()
            except ConnectionRefusedError:
                select.select([child.stderr], [], [], 0.1)  # it is starting
        expect(text, r"^libvirt_up 1$", r"^libvirt_domains_number 1$",
               r'^libvirt_domain_info_virtual_cpus\{domain="demo",uuid=".*"\} 2$',
               r'^libvirt_domain_info_cpu_time_seconds_total\{domain="demo"', r'^libvirt_domain_state_code\{.*\} 1$')
    finally:
        child.kill()
        child.wait()


def collectd():
    configuration, values = FOLDER + "/collectd.conf", FOLDER + "/csv"
    with open(configuration, "w") as file:
        file.write('Hostname "h"\nFQDNLookup false\nBaseDir "%s"\nPIDFile "%s/collectd.pid"\n'
                   'PluginDir "/usr/lib/collectd"\nTypesDB "/usr/share/collectd/types.db"\nInterval 1\n'
                   'LoadPlugin virt\n<Plugin virt>\n Connection "%s"\n RefreshInterval 1\n'
                   ' ExtraStats "domain_state vcpu memory"\n</Plugin>\n'
                   'LoadPlugin write_log\nLoadPlugin logfile\n<Plugin logfile>\n File STDOUT\n</Plugin>\n'
                   % (FOLDER, FOLDER, READ_ONLY))
    child = subprocess.Popen(["collectd", "-f", "-C", configuration], stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT)
    text, deadline = "", time.monotonic() + PATIENCE
    wanted = (r"demo.virt.virt_cpu_total", r"demo.virt.domain_state", r"demo.virt.memory-total", r"virt_vcpu-1")
    try:
        while not all(re.search(each, text) for each in wanted):
            left = deadline - time.monotonic()
            assert left > 0 and select.select([child.stdout], [], [], left)[0], text
            more = os.read(child.stdout.fileno(), 65536).decode()
            assert more, text
            text += more
    finally:
        child.kill()
        child.wait()


# ---- who may what ----

def read_only():
    for words in (["suspend"], ["resume"], ["shutdown"], ["destroy"], ["reboot"], ["undefine"]):
        refused("read.only", *words, "demo", uri=READ_ONLY)
    expect(virsh("list", uri=READ_ONLY), "demo")
    # Not only because the client says so.
    with Wire(SOCKET + "-ro") as wire:
        wire.open()
        status, payload = wire.call(34, wire.domain())
        assert status == 1 and b"read-only" in payload, payload
    with Wire(SOCKET) as wire:
        wire.open(flags=1)
        status, payload = wire.call(34, wire.domain())
        assert status == 1 and b"read-only" in payload, payload
    assert virsh("domstate", "demo") == "running"


def as_nobody(*arguments, uid=65534):
    return subprocess.run(["setpriv", "--reuid=%d" % uid, "--regid=65534", "--clear-groups", "virsh", "-c", URI,
                           *arguments], capture_output=True, text=True, timeout=PATIENCE,
                          stdin=subprocess.DEVNULL, env={**os.environ, "HOME": "/nonexistent",
                                                         "XDG_RUNTIME_DIR": FOLDER})


def denied():
    """uid 65534 has a context that may look and no more; its policy is in clients.c."""
    done = as_nobody("list")
    assert done.returncode == 0 and "demo" in done.stdout, done
    for words, lacks in ((["suspend", "demo"], "guest { suspend }"), (["resume", "demo"], "guest { resume }"),
                         (["destroy", "demo"], "guest { stop }"), (["shutdown", "demo"], "guest { stop }"),
                         (["undefine", "demo"], "guest { define }"), (["hostname"], "monitor { getattr }"),
                         (["desc", "demo", "x"], "guest { define }")):
        done = as_nobody(*words)
        assert done.returncode == 1 and "access denied" in done.stderr and lacks in done.stderr, done
    assert virsh("domstate", "demo") == "running"
    trail = portcullis("audit", "--lines", "100")
    expect(trail, r"avc: +denied +\{ suspend \} .*scontext=system_u:system_r:looker_t:s0 .*tclass=guest")
    # Who has no context is not let in at all, and the trail says who it was.
    assert as_nobody("list", uid=65533).returncode != 0
    expect(portcullis("audit"), r"libvirt socket: refused uid=65533: access denied: uid 65533 has no context here")
    # A policy comes into force: what was granted is asked for anew.
    portcullis("policy", "push", *POLICY, "--force")
    done = as_nobody("list")
    assert done.returncode == 1 and "access denied" in done.stderr, done


# ---- hostile clients ----

class Wire:
    """The protocol, by hand."""

    def __init__(self, path=SOCKET):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.socket.settimeout(PATIENCE)
        self.serial = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    @staticmethod
    def frame(procedure, payload=b"", program=0x20008086, version=1, kind=0, serial=0, status=0, length=None):
        return struct.pack(">IIIiiIi", 28 + len(payload) if length is None else length, program, version,
                           procedure, kind, serial, status) + payload

    def send(self, *arguments, **words):
        self.serial += 1
        words.setdefault("serial", self.serial)
        self.socket.sendall(self.frame(*arguments, **words))

    def read(self, n):
        data = b""
        while len(data) < n:
            more = self.socket.recv(n - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    def receive(self):
        length, = struct.unpack(">I", self.read(4))
        body = self.read(length - 4)
        return struct.unpack(">IIiiIi", body[:24]), body[24:]

    def call(self, procedure, payload=b""):
        self.send(procedure, payload)
        header, body = self.receive()
        assert header[2] == procedure and header[4] == self.serial, header
        return header[5], body

    def open(self, flags=0):
        assert self.call(66) == (0, struct.pack(">Ii", 1, 0))
        status, body = self.call(1, struct.pack(">II", 0, flags))
        assert status == 0, body

    def domain(self, name=b"demo"):
        text = struct.pack(">I", len(name)) + name + b"\0" * (-len(name) % 4)
        status, body = self.call(23, text)
        assert status == 0, body
        return body

    def is_dropped(self):
        try:
            while self.socket.recv(65536):
                pass
        except ConnectionResetError:
            pass
        return True


def of_monitor(name):
    with open(FOLDER + "/pid") as file:
        pid = int(file.read())
    with open("/proc/%d/%s" % (pid, name)) as file:
        return file.read()


def is_sanitized():
    return "libasan" in of_monitor("maps")


def resident():
    return int(of_monitor("statm").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def malformed():
    with Wire() as wire:  # before OPEN only two calls are answered
        status, body = wire.call(273, struct.pack(">iI", 1, 0))
        assert status == 1 and b"not been opened" in body, body
        status, body = wire.call(60, struct.pack(">i", 10))
        assert (status, body) == (0, struct.pack(">i", 1))
        wire.open()
        # Arguments that are not in their form are answered, and the connection goes on.
        for payload in (b"", b"\0" * 4, b"\0" * 12, b"\xff" * 8, b"\xff" * 400):
            status, body = wire.call(273, payload)
            assert (status == 1) == (payload not in (b"\xff" * 8,)) or status == 1, payload
        for payload in (struct.pack(">I", 0xffffffff) + b"demo", struct.pack(">I", 4) + b"de",
                        struct.pack(">I", 4) + b"de\0o"):
            assert wire.call(23, payload)[0] == 1
        status, body = wire.call(344, struct.pack(">I", 0x40000000))
        assert status == 1
        status, body = wire.call(99999)
        assert status == 1 and struct.unpack(">i", body[:4])[0] == 3, body  # VIR_ERR_NO_SUPPORT
        wire.send(1, program=0x6b656570, kind=2, serial=0)
        header, _ = wire.receive()
        assert header[0] == 0x6b656570 and header[2] == 2, header
    for frame in (Wire.frame(66, length=27), Wire.frame(66, length=0), Wire.frame(66, length=0xffffffff),
                  Wire.frame(66, length=1 << 20), Wire.frame(66, program=1), Wire.frame(66, version=2),
                  Wire.frame(66, kind=1), Wire.frame(66, kind=3), b"GET / HTTP/1.0\r\n\r\n" * 3):
        with Wire() as wire:
            wire.socket.sendall(frame)
            assert wire.is_dropped()
    with Wire() as wire:  # one megabyte and not a byte more
        wire.open()
        assert wire.call(11, b"\0" * ((1 << 20) - 28))[0] == 1
        wire.socket.sendall(Wire.frame(11, length=(1 << 20) + 4))
        assert wire.is_dropped()
    with Wire() as wire:  # cut short, and never continued
        wire.socket.sendall(Wire.frame(66)[:20])
        expect(virsh("list"), "demo")


def pipelined():
    with Wire() as wire:
        wire.open()
        domain = wire.domain()
        first = wire.serial + 1
        for _ in range(500):
            wire.send(212, domain + b"\0" * 4)
        serials = set()
        for _ in range(500):
            header, _ = wire.receive()
            assert header[5] == 0
            serials.add(header[4])
        assert serials == set(range(first, first + 500))


def crowd():
    """1,000 connections, a client that asks and never reads, an event reader that never reads (H7)."""
    import resource
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
    before = resident()
    idle = [Wire() for _ in range(1000)]
    expect(virsh("list"), "demo")
    deaf = []
    for _ in range(4):
        wire = Wire()
        wire.open()
        for _ in range(64):
            assert wire.call(316, struct.pack(">iI", 0, 0))[0] == 0
        assert wire.call(316, struct.pack(">iI", 0, 0))[0] == 1
        deaf.append(wire)
    greedy = Wire()
    greedy.open()
    greedy.socket.setblocking(False)
    try:
        while True:
            greedy.socket.send(Wire.frame(7))
    except BlockingIOError:
        pass  # it is not read any more, and nobody else notices
    with Wire() as wire:
        wire.open()
        domain = wire.domain()
        for _ in range(400):  # each event is 64 messages to each of the deaf: more than they may leave unread
            assert wire.call(34, domain)[0] == 0 and wire.call(28, domain)[0] == 0
    virsh("suspend", "demo")
    virsh("resume", "demo")
    report = json.loads(portcullis("policy", "push", *STRICT, "--json"))
    assert report["flows"]["cut"] > 0
    assert report["times"]["stop"] < 5e6, report["times"]
    # A sanitizer keeps what was freed, to see who uses it.
    assert is_sanitized() or resident() - before < 64 << 20, (before, resident())
    for wire in deaf:
        assert wire.is_dropped()
    for wire in idle + deaf + [greedy]:
        wire.socket.close()
    expect(virsh("list"), "demo")


# ---- libvirt's own place ----

def system():
    expect(run("virsh", "-c", "portcullis:///system", "list"), "demo")
    expect(run("virsh", "-r", "-c", "portcullis:///system", "list"), "demo")
    expect(run("virsh", "-r", "-c", "portcullis:///system", "suspend", "demo", status=1), "read.only")


# ---- suspend and push ----

def suspend_and_push():
    """Stops are counted: a push neither resumes a guest that virsh suspended, nor waits for it."""
    virsh("suspend", "demo")
    report = json.loads(portcullis("policy", "push", *STRICT, "--json"))
    assert report["flows"]["cut"] > 0
    assert virsh("domstate", "demo", "--reason") == "paused (user)"
    cut = [flow for channel in json.loads(portcullis("channel", "list", "--json")) for flow in channel["flows"]
           if flow["state"] == "cut"]
    assert len(cut) == report["flows"]["cut"], cut
    virsh("resume", "demo")
    # At the same moment, again and again.
    for round_number in range(6):
        policy = POLICY if round_number % 2 else STRICT
        push = subprocess.Popen([PORTCULLIS, "policy", "push", *policy, "--socket", CONTROL],
                                stdout=subprocess.DEVNULL)
        virsh("suspend", "demo")
        assert push.wait(PATIENCE) == 0
        assert virsh("domstate", "demo") == "paused"
        virsh("resume", "demo")
        assert virsh("domstate", "demo") == "running"


if __name__ == "__main__":
    signal.alarm(120)
    globals()[sys.argv[1]]()
