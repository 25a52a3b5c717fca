#!/usr/bin/env python3
"""From the document of `portcullis bench --all --json`: bench.md and SVG plots beside it.

usage: report.py BENCH.JSON     needs gnuplot; called by `make bench`
"""
import json
import os
import subprocess
import sys

MANY = ("revoke_adjacent", "revoke_mapping_per_slot", "revoke_scattered", "revoke_interleaved")
FEW = ("revoke_chain", "revoke_chain_affected", "revoke_chain_none", "revoke_pairs", "revoke_fan")
PARTS = ("total", "stop", "patch", "resume", "stop_to_resumed")
STYLE = """set encoding utf8
set terminal svg size 900,560 font 'sans,15' background '#ffffff'
set border 3 lw 1.2 lc '#444444'
set tics nomirror out
set grid lc '#dddddd' lw 1
set output '{}'
set title {!r}
set xlabel {!r}
set ylabel {!r}
"""


def number(value):
    if value is None:
        return "-"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if value >= 1 else f"{value:.3g}"


def table(heading, rows):
    lines = ["| " + " | ".join(heading) + " |", "|" + "---|" * len(heading)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


# ---- the page ----

def revoke_text(name, data):
    rows = [[0] + [number(data["idle"][p]["median"]) for p in PARTS] + ["-"] * 3]
    for row in data["rows"]:
        rows.append([f'{row["connections"]:,}'] + [number(row[p]["median"]) for p in PARTS] +
                    [number(row["total"].get("p99")), number(row["floor"]["stop_resume"]["median"]),
                     number(row["floor_ratio"])])
    text = f'### {name}: --stop {data["stop"]}, {data["vcpus"]} vCPUs\n\n'
    text += table(["connections", "total", "stop", "patch", "resume", "stop to resumed", "p99 of total", "floor",
                   "x floor"], rows)
    fit = data.get("fit")
    if fit:
        patch = fit["patch"]
        text += (f'\nFit of total: {fit["base"]:.0f} us + {fit["per_connection"]:.2f} us x n (R2 {fit["r2"]:.3f}); '
                 f'of patch: {patch["base"]:.0f} us + {patch["per_connection"]:.2f} us x n (R2 {patch["r2"]:.3f}).\n')
    floor = data["floor"]
    text += (f'Floor (stop and resume alone, prepared as a change): {number(floor["stop_resume"]["median"])} us; '
             f'right after another stop: {number(floor["warm"]["median"])} us.\n')
    for row in data.get("skipped", []):
        text += f'Left out: {row["connections"]:,} connections: {row["why"]}.\n'
    return text


def loads_text(data):
    rows = [[r["load"], r["vcpus"]] + [number(r[p]["median"]) for p in PARTS[1:]] +
            [number(r["stop_to_resumed"].get("p99")), number(r["floor"]["stop_resume"]["median"]),
             number(r["floor"]["warm"]["median"]), number(r["floor_ratio"]),
             number(r.get("qemu_stop_cont", {}).get("median")), number(r.get("qemu_ratio"))] for r in data["rows"]]
    text = f'### revoke_loads: one connection while every vCPU has a load, --stop {data["stop"]}\n\n'
    text += table(["load", "vCPUs", "stop", "patch", "resume", "stop to resumed", "p99 of it", "floor", "warm floor",
                   "x floor", "QEMU stop + cont", "x QEMU"], rows)
    if "no_qemu" in data:
        text += f'\nNo QEMU beside it: {data["no_qemu"]}.\n'
    return text + "\n![revoke-loads](revoke-loads.svg)\n"


def bystander_text(data):
    counts = ("mapping_calls", "stop_requests", "signal_exits", "interrupt_exits")
    rows = [[f'{r["connections"]:,}', r["stop"]] + [number(r.get(c, {}).get("median")) for c in counts] +
            [number(r.get("forced_exits_per_mapping_call")), number(r["lost"]["median"]), number(r["lost"]["max"]),
             number(r["lost_before"]["median"]), number(r["total"]["median"])] for r in data["rows"]]
    text = (f'### revoke_bystander: a guest that is not concerned, slots {data["layout"]}\n\n'
            f'Its domain reads the clock every {number(data["reading_ns"])} ns; lost: microseconds a change in gaps of '
            'over 20 times that. "planned" is a change that is prepared and not made.\n\n')
    text += table(["connections", "--stop", "mapping calls", "stop requests", "exits for signals", "for interrupts",
                   "forced a mapping call", "lost", "most", "lost while preparing", "total"], rows)
    if "no_exits" in data:
        text += f'\nNo exits: {data["no_exits"]}.\n'
    return text + ("\n![bystander](bystander.svg)\n" if data["layout"] == "scattered" else "")


def stop_text(data):
    rows = [[r["vcpus"], r["load"], number(r["stop"]["median"]), number(r["resume"]["median"]),
             number(r["stop_resume"]["median"]), number(r["stop_resume"].get("p99")),
             number(r.get("qemu_stop_cont", {}).get("median")), number(r.get("qemu_stop_cont", {}).get("p99"))]
            for r in data["rows"]]
    text = "### stop\n\n" + table(["vCPUs", "load", "stop", "resume", "both", "p99", "QEMU stop + cont", "p99"], rows)
    if "no_qemu" in data:
        text += f'\nNo QEMU beside it: {data["no_qemu"]}.\n'
    return text


def ipc_text(data):
    transports = list(dict.fromkeys(r["transport"] for r in data["rows"]))
    sizes = list(dict.fromkeys(r["bytes"] for r in data["rows"]))
    cell = {(r["transport"], r["bytes"]): r for r in data["rows"]}
    text = "### ipc: round trip, median\n\n"
    text += table(["bytes"] + transports,
                  [[s] + [number(cell[t, s]["round_trip"]["median"]) for t in transports] for s in sizes])
    text += "\n### ipc: one way, MB a second\n\n"
    copies = {r["bytes"]: number(r["bytes_per_second"] / 1e6) for r in data["memcpy"]}
    text += table(["bytes"] + transports + ["memcpy"],
                  [[s] + [number(cell[t, s]["bytes_per_second"] / 1e6) for t in transports] + [copies[s]] for s in sizes])
    return text


def figures_text(name, data):
    rows = [[r["name"], number(r["median"]), number(r.get("p99")), number(r["max"])] for r in data["rows"]]
    text = f"### {name}\n\n" + table(["", "median", "p99", "max"], rows)
    if "churn" in data:
        text += "\nHit ratio of the cache against the rate of policy changes:\n\n"
        text += table(["lookups between two changes", "hit ratio", "us a lookup"],
                      [[f'{r["lookups_per_change"]:,}', f'{r["hit_ratio"]:.4f}', number(r["median"])]
                       for r in data["churn"]])
    if "memory" in data:
        text += "\n" + table(["memory", "bytes"], [[k, f"{v:,}"] for k, v in data["memory"].items()])
    return text


def push_text(data):
    parts = ("compile", "load", "questions", "decide", "plan", "cutting", "prepare", "stopped")
    text = "### push\n\n" + table(["channels", "pairs"] + list(parts), [
        [f'{r["channels"]:,}', f'{r["pairs"]:,}'] + [number(r[p]["median"]) for p in parts] for r in data["rows"]])
    for row in data.get("skipped", []):
        text += f'\nLeft out: {row["channels"]:,} channels, {row["pairs"]:,} pairs: {row["why"]}.\n'
    return text


def guests_text(data):
    parts = ("stop", "patch", "resume", "total")
    rows = [[r["guests"], r["channels"], r["cut"]] + [number(r[p]["median"]) for p in parts] +
            [number(r["total"]["max"]), number(r["calls_per_second"]), number(r["start_ms"])] for r in data["rows"]]
    return f'### guests: --stop {data["stop"]}, {data["domains"]} domains each\n\n' + table(
        ["guests", "channels", "cut"] + list(parts) + ["max of total", "calls a second", "start, ms"], rows)


OWN = {"revoke_loads": loads_text, "revoke_bystander": bystander_text, "revoke_bystander_adjacent": bystander_text,
       "stop": stop_text, "ipc": ipc_text, "push": push_text, "guests": guests_text}


def page(document):
    machine, all_of = document["machine"], document["measurements"]
    text = (f'# Portcullis, measured\n\n{machine["processor"]}, {machine["cores"]} cores, Linux {machine["kernel"]}; '
            f'load average {machine["load_before"]:.2f} before, {machine["load_after"]:.2f} after '
            f'{machine["seconds"]:.0f} s.\nMicroseconds unless a heading says otherwise; medians. '
            "docs/performance.md says how each figure is made.\n")
    for name, data in all_of.items():
        if name in OWN:
            part = OWN[name](data)
        elif name.startswith("revoke"):
            part = revoke_text(name, data)
        else:
            part = figures_text(name, data)
        text += "\n" + part
    return text + "".join(f"\n![{p}]({p}.svg)\n" for p in ("revoke", "revoke-many", "stop", "round-trip"))


# ---- the plots ----

def block(name, points):
    return f"${name} << E\n" + "\n".join(" ".join(str(v) for v in p) for p in points) + "\nE\n"


def revoke_plot(data):
    fit = data["fit"]
    text = block("ours", [(r["connections"], r["total"]["median"]) for r in data["rows"]])
    text += block("paper", list(zip(data["paper"]["connections"], data["paper"]["total"])))
    text += STYLE.format("revoke.svg", "Revoking every connection of a chain", "connections",
                         "stop to resumed, microseconds")
    text += "set yrange [0:*]\nset xrange [0:17]\nset key center right\n"
    text += f'f(x) = {fit["base"]} + {fit["per_connection"]} * x\ng(x) = 1545.2 + 6.61 * x\n'
    label = f'{fit["base"]:.0f} + {fit["per_connection"]:.1f} n  (R² {fit["r2"]:.3f})'
    text += ("plot $paper w p pt 7 ps 1.1 lc '#b5651d' t 'the paper, 200 MHz (1999)', "
             "g(x) w l lw 2 lc '#dcb28a' t '1545 + 6.6 n  (R² 0.998)', "
             "$ours w p pt 7 ps 1.1 lc '#1f5fa8' t 'Portcullis, medians', "
             f"f(x) w l lw 2 lc '#7fb0e0' t '{label}'\n")
    return text


def many_plot(all_of):
    colours = ("#1f5fa8", "#2e8b57", "#b5651d", "#8a5fb0")
    text, plots = "", []
    for name, colour in zip(MANY, colours, strict=True):
        data = all_of.get(name)
        if not data or not data.get("rows"):
            continue
        key = name.removeprefix("revoke_")
        slope = data["fit"]["patch"]["per_connection"]
        text += block(key, [(r["connections"], r["patch"]["median"] / 1000) for r in data["rows"]])
        plots.append(f"${key} w lp pt 7 ps 0.9 lw 2 lc '{colour}' "
                     f"t '{key.replace('_', ' ')}: {slope:.1f} us each'")
    text += STYLE.format("revoke-many.svg", "Patching alone, by layout of the slots", "connections", "milliseconds")
    return (text + "set logscale xy\nset key top left\nset xrange [50:20000]\n"
            "set xtics ('64' 64, '256' 256, '1,024' 1024, '4,096' 4096, '16,384' 16384)\nplot " + ", ".join(plots) + "\n")


def stop_plot(data):
    text, plots = "", []
    colours = iter(("#1f5fa8", "#2e8b57", "#b5651d", "#8a5fb0"))
    for row in data["rows"]:
        if row["vcpus"] != 2:
            continue
        key = row["load"]
        text += block(key, [(v, i) for i, v in enumerate(row["quantiles"])])
        plots.append(f"${key} w steps lw 2 lc '{next(colours)}' t '{key}'")
        if "qemu_quantiles" in row:
            text += block("qemu", [(v, i) for i, v in enumerate(row["qemu_quantiles"])])
            plots.append("$qemu w steps lw 2 lc '#777777' t 'QEMU, stop + cont'")
    text += STYLE.format("stop.svg", "Stop and resume of two vCPUs, nothing between",
                         "microseconds, at most", "% of runs")
    return text + "set logscale x\nset yrange [0:101]\nset key bottom right\nplot " + ", ".join(plots) + "\n"


def bars_plot(style, key, groups, series):
    """Clustered bars; groups: pairs of lines below them, series: name to a value for each group."""
    colours = ("#1f5fa8", "#7fb0e0", "#b5651d")
    values = [["NaN" if v is None else v for v in of] for of in series.values()]
    text = block("bars", zip(*values)) + style
    text += "set style data histogram\nset style histogram clustered gap 1\nset style fill solid border -1\n"
    text += f"set yrange [0:*]\nset key {key}\nset bmargin 4\n"
    text += "set xtics scale 0 (" + ", ".join(f'"{a}\\n{b}" {i}' for i, (a, b) in enumerate(groups)) + ")\n"
    return text + "plot " + ", ".join(f"$bars u {i + 1} lc '{colours[i]}' t '{s}'" for i, s in enumerate(series)) + "\n"


def loads_plot(data):
    rows = data["rows"]
    style = STYLE.format("revoke-loads.svg", "Revoking one connection, by load and number of vCPUs", "",
                         "microseconds, median")
    return bars_plot(style, "top right", [(r["load"], r["vcpus"]) for r in rows],
                     {"stop to resumed": [r["stop_to_resumed"]["median"] for r in rows],
                      "stop and resume alone": [r["floor"]["stop_resume"]["median"] for r in rows],
                      "QEMU, stop + cont": [r.get("qemu_stop_cont", {}).get("median") for r in rows]})


def bystander_plot(data):
    rows = data["rows"]
    style = STYLE.format("bystander.svg", "What a guest loses that is not concerned, by --stop and connections", "",
                         "microseconds a change, median")
    return bars_plot(style, "top left", [(r["stop"], f'{r["connections"]:,}') for r in rows],
                     {"in gaps": [r["lost"]["median"] for r in rows],
                      "the change itself": [r["total"]["median"] for r in rows]})


def round_trip_plot(data):
    text, plots = "", []
    colours = {"raw-shared-memory": "#777777", "channel": "#1f5fa8", "channel-unmediated": "#7fb0e0",
               "channel-identified": "#5e4fa2", "channel-on-behalf": "#a89bd6", "channel-two-guests": "#c0392b",
               "two-guests-sleeping": "#e8a39b",
               "channel-sleeping": "#2e8b57", "channel-same-vcpu": "#8fc9a6", "pipe": "#b5651d",
               "unix-seqpacket": "#d9a066"}
    for i, name in enumerate(dict.fromkeys(r["transport"] for r in data["rows"])):
        text += block(f"t{i}", [(r["bytes"], r["round_trip"]["median"]) for r in data["rows"] if r["transport"] == name])
        plots.append(f"$t{i} w lp pt 7 ps 0.8 lw 2 lc '{colours.get(name, '#000000')}' t '{name}'")
    text += STYLE.format("round-trip.svg", "Round trip of a message, two cores", "bytes", "microseconds, median")
    text += "set logscale xy\nset xrange [6:90000]\nset yrange [0.1:*]\nset key outside right top\n"
    text += "set xtics ('8' 8, '128' 128, '1 Ki' 1024, '8 Ki' 8192, '64 Ki' 65536)\n"
    return text + "plot " + ", ".join(plots) + "\n"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        document = json.load(file)
    folder, all_of = os.path.dirname(sys.argv[1]) or ".", document["measurements"]
    with open(os.path.join(folder, "bench.md"), "w", encoding="utf-8") as file:
        file.write(page(document))
    plots = [revoke_plot(all_of["revoke_chain"]), many_plot(all_of), stop_plot(all_of["stop"]),
             round_trip_plot(all_of["ipc"])]
    for name, plot in (("revoke_loads", loads_plot), ("revoke_bystander", bystander_plot)):
        if name in all_of:
            plots.append(plot(all_of[name]))
    for script in plots:
        subprocess.run(["gnuplot"], input=script, text=True, check=True, cwd=folder)


if __name__ == "__main__":
    main()
