#!/usr/bin/env python3
"""From the document of `portcullis bench --all --json`: bench.md and three SVG plots beside it.

usage: report.py BENCH.JSON     needs gnuplot; called by `make bench`
"""
import json
import os
import subprocess
import sys

MANY = ("revoke_adjacent", "revoke_mapping_per_slot", "revoke_scattered")
FEW = ("revoke_chain", "revoke_chain_affected", "revoke_chain_none", "revoke_pairs", "revoke_fan")
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
    rows = [[0] + [number(data["idle"][p]["median"]) for p in ("total", "stop", "patch", "resume")] + ["-"]]
    for row in data["rows"]:
        rows.append([f'{row["connections"]:,}'] +
                    [number(row[p]["median"]) for p in ("total", "stop", "patch", "resume")] +
                    [number(row["total"].get("p99"))])
    text = f'### {name}: --stop {data["stop"]}, {data["vcpus"]} vCPUs\n\n'
    text += table(["connections", "total", "stop", "patch", "resume", "p99 of total"], rows)
    fit = data.get("fit")
    if fit:
        patch = fit["patch"]
        text += (f'\nFit of total: {fit["base"]:.0f} us + {fit["per_connection"]:.2f} us x n (R2 {fit["r2"]:.3f}); '
                 f'of patch: {patch["base"]:.0f} us + {patch["per_connection"]:.2f} us x n (R2 {patch["r2"]:.3f}).\n')
    text += f'Floor (stop and resume alone): {number(data["floor"]["stop_resume"]["median"])} us.\n'
    for row in data.get("skipped", []):
        text += f'Left out: {row["connections"]:,} connections: {row["why"]}.\n'
    return text


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
    parts = ("compile", "load", "questions", "decide", "plan", "prepare", "stopped")
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


def page(document):
    machine, all_of = document["machine"], document["measurements"]
    text = (f'# Portcullis, measured\n\n{machine["processor"]}, {machine["cores"]} cores, Linux {machine["kernel"]}; '
            f'load average {machine["load_before"]:.2f} before, {machine["load_after"]:.2f} after '
            f'{machine["seconds"]:.0f} s.\nMicroseconds unless a heading says otherwise; medians. '
            "docs/performance.md says how each figure is made.\n")
    for name, data in all_of.items():
        if name.startswith("revoke"):
            part = revoke_text(name, data)
        elif name in ("stop", "ipc", "push", "guests"):
            part = {"stop": stop_text, "ipc": ipc_text, "push": push_text, "guests": guests_text}[name](data)
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
    colours = ("#1f5fa8", "#2e8b57", "#b5651d")
    text, plots = "", []
    for name, colour in zip(MANY, colours):
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
    for script in plots:
        subprocess.run(["gnuplot"], input=script, text=True, check=True, cwd=folder)


if __name__ == "__main__":
    main()
