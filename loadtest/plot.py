#!/usr/bin/env python3
"""plot.py OUT.svg REPORT...: draws reports that callload wrote with --json. Of one report: percentiles of latency over
the time of the load, faults marked. Of several: what a call and an idle device cost, by devices, or by coordinators where
the devices are the same in all. The picture follows the reader's light or dark colours."""
import html, json, math, sys

WIDTH, HEADING, HEIGHT = 960, 64, 300
LEFT, RIGHT, TOP, BOTTOM = 90, 920, 58, 248  # the frame of a chart's lines
DASHES = ["", "7 4", "2 3", "10 3 2 3", "1 5"]  # for eyes and printers that see no colours
STYLE = """text{font:13px system-ui,sans-serif;fill:#1b1f24}.title{font-size:18px;font-weight:600}
.head{font-size:15px;font-weight:600}.label{font-size:12px}.soft{fill:#57606a}.end{text-anchor:end}
.middle{text-anchor:middle}.ground{fill:#fff}.grid{stroke:#d8dce2}.mark{fill:#cf222e;fill-opacity:.16}
.markname{font-size:11px;fill:#a40e26}.line{fill:none;stroke-width:2}.dot{fill:#fff;stroke-width:2}
.c0{stroke:#0b62c4}.c1{stroke:#a84300}.c2{stroke:#a3195b}.c3{stroke:#1a7f37}.c4{stroke:#6f42c1}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.soft{fill:#9aa4af}.ground,.dot{fill:#0d1117}
.grid{stroke:#30363d}.mark{fill:#ff7b72;fill-opacity:.22}.markname{fill:#ffa198}
.c0{stroke:#58a6ff}.c1{stroke:#f0883e}.c2{stroke:#ff7eb6}.c3{stroke:#56d364}.c4{stroke:#bc8cff}}"""


def linear(values, most_ticks):
    """From 0 to a round value: a function from a value to 0...1, and the values to name."""
    top = max([v for v in values if v > 0], default=1)
    power = 10 ** math.floor(math.log10(top / most_ticks))
    step = next(s * power for s in (1, 2, 5, 10) if s * power * most_ticks >= top * 0.999999)
    count = math.ceil(top / step - 1e-9)
    return lambda v: v / (count * step), [i * step for i in range(count + 1)]


def logarithmic(values, most_ticks):
    found = [v for v in values if v > 0] or [1]
    decades = range(math.floor(math.log10(min(found))), math.floor(math.log10(max(found))) + 2)
    steps = [s * 10.0**d for d in decades for s in (1, 2, 5)]
    low = max(s for s in steps if s <= min(found) * 1.000001)
    high = min((s for s in steps if s >= max(found) and s > low), default=low * 10)
    ticks = [s for s in steps if low <= s <= high]
    whole = [s for s in ticks if abs(math.log10(s) - round(math.log10(s))) < 1e-9]
    if len(ticks) > most_ticks and len(whole) > 1:
        ticks = whole
    return lambda v: math.log(max(v, low) / low) / math.log(high / low), ticks


def number(value):
    return f"{value:,.3f}".rstrip("0").rstrip(".")


def time(us):
    return f"{number(us)} µs" if us < 1e3 else f"{number(us / 1e3)} ms" if us < 1e6 else f"{number(us / 1e6)} s"


def chart(title, x, y, lines, marks=()):
    """x and y: title, scale, labels. lines: name and points. marks: name, begin and end."""
    points = [p for _, ps in lines for p in ps]
    to_x, x_ticks = x[1]([p[0] for p in points] + [m[2] for m in marks], 12)
    to_y, y_ticks = y[1]([p[1] for p in points], 6)
    at_x = lambda v: round(LEFT + to_x(v) * (RIGHT - LEFT), 1)
    at_y = lambda v: round(BOTTOM - to_y(v) * (BOTTOM - TOP), 1)
    out, legend = [f'<text class="head" x="20" y="22">{html.escape(title)}</text>'], LEFT
    for i, (name, from_, to) in enumerate(marks):
        left, right = at_x(from_), at_x(to)
        word = f'<text class="markname" x="{left + 3}" y="{TOP + 12 + 13 * (i % 3)}">{name}</text>' if len(marks) <= 8 else ""
        out.append(f'<g><title>{name}</title><rect class="mark" x="{left}" y="{TOP}" width="{max(right - left, 1.5):.1f}" '
                   f'height="{BOTTOM - TOP}"/>{word}</g>')
    for tick in y_ticks:
        out.append(f'<line class="grid" x1="{LEFT}" x2="{RIGHT}" y1="{at_y(tick)}" y2="{at_y(tick)}"/>'
                   f'<text class="label end" x="{LEFT - 8}" y="{at_y(tick)}" dy="4">{y[2](tick)}</text>')
    for tick in x_ticks:
        out.append(f'<line class="grid" x1="{at_x(tick)}" x2="{at_x(tick)}" y1="{TOP}" y2="{BOTTOM}"/>'
                   f'<text class="label middle" x="{at_x(tick)}" y="{BOTTOM + 18}">{x[2](tick)}</text>')
    out.append(f'<text class="soft middle" x="{(LEFT + RIGHT) / 2}" y="{BOTTOM + 38}">{x[0]}</text>'
               f'<text class="soft middle" transform="translate(22 {(TOP + BOTTOM) / 2}) rotate(-90)">{y[0]}</text>')
    for i, (name, points) in enumerate(lines):
        look = f'class="line c{i % 5}" stroke-dasharray="{DASHES[i % 5]}"'
        places = [(at_x(a), at_y(b)) for a, b in sorted(points)]
        out.append(f'<line {look} x1="{legend}" x2="{legend + 28}" y1="40" y2="40"/>'
                   f'<text class="label" x="{legend + 34}" y="44">{html.escape(name)}</text>')
        out.append(f'<polyline {look} points="{" ".join(f"{a},{b}" for a, b in places)}"/>')
        if len(places) <= 20:  # A few points are values that somebody measured, and are seen as such.
            out += [f'<circle class="dot c{i % 5}" cx="{a}" cy="{b}" r="3"/>' for a, b in places]
        legend += 60 + 7 * len(name)
    return "\n".join(out)


def over_time(run):
    series, chaos, seconds = run["series"], run.get("chaos", {}), run["load_seconds"]
    marks = [(f["kind"], f["at_seconds"], f.get("lifted_seconds", seconds)) for f in chaos.get("faults", [])]
    titles = {"ring": "from placing until the last device has the invite", "answer": "from the answer until the caller is told",
              "elsewhere": "from the answer until the last other device is told"}
    x = ("seconds since the first call, by when the act was due", linear, number)
    charts = [
        chart(f"{phase}: {title}", x, ("latency", logarithmic, time),
              [(name, list(zip(series[phase]["seconds"], series[phase][name]))) for name in ("p50", "p99", "max")], marks)
        for phase, title in titles.items() if series[phase]["seconds"]]
    settings, every = run["settings"], series["interval_seconds"]
    return (f"Latency in each {'second' if every == 1 else f'{every} seconds'}",
            f"{run['devices']['expected']:,} devices, {number(run['calls']['rate_per_second_asked'])} calls/s, scenario "
            f"{settings['scenario']}, seed {settings['seed']}" + (f", chaos {settings['chaos']}" if chaos else ""), charts)


def costs(runs):
    by_devices = len({run["devices"]["connected"] for run in runs}) > 1
    x = ("connected devices", logarithmic, number) if by_devices else ("coordinators", linear, number)

    def kind(settings):
        if settings.get("nodes"):
            return "nodes with both roles"
        return f"{settings['coordinators']} coordinators, edges apart" if by_devices else "coordinators and edges apart"

    charts = []
    for title, unit, figure in [
        ("CPU of the servers for a call", "µs of CPU", lambda r: r["cpu_us_per_call"].get("total")),
        ("CPU of the servers for a connected device without calls", "µs of CPU per second",
         lambda r: r.get("idle", {}).get("cpu_us_per_second_and_device")),
        ("Memory of the edges for a connected device", "bytes", lambda r: r.get("edge_bytes_per_device")),
        ("ring, median", "µs", lambda r: r["latency_us"].get("ring", {}).get("p50")),
        ("ring, 99th percentile", "µs", lambda r: r["latency_us"].get("ring", {}).get("p99")),
    ]:
        lines = {}
        for run in runs:
            settings = run["settings"]
            at = run["devices"]["connected"] if by_devices else settings.get("nodes") or settings["coordinators"]
            if figure(run) is not None:
                lines.setdefault(kind(settings), []).append((at, figure(run)))
        if lines:
            charts.append(chart(title, x, (unit, linear, number), sorted(lines.items())))
    return f"Costs by {'devices' if by_devices else 'coordinators'}", f"{len(runs)} runs of callload", charts


def main():
    if len(sys.argv) < 3 or not sys.argv[1].endswith(".svg"):
        sys.exit(__doc__)
    try:
        runs = [json.load(open(name)) for name in sys.argv[2:]]
        if len(runs) == 1 and "series" not in runs[0]:
            sys.exit(f"plot.py: {sys.argv[2]} has no latency over time, as a report of callload merge; draw a slice's")
        title, subtitle, charts = costs(runs) if len(runs) > 1 else over_time(runs[0])
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.exit(f"plot.py: no report that callload wrote with --json, or one without such figures: {error!r}")
    height = HEADING + HEIGHT * len(charts)
    with open(sys.argv[1], "w") as out:
        out.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
                  f'role="img">\n<title>{title}</title>\n<style>{STYLE}</style>\n<rect class="ground" width="100%" height="100%"/>\n'
                  f'<text class="title" x="20" y="30">{title}</text>\n<text class="soft" x="20" y="50">{html.escape(subtitle)}</text>\n')
        for i, one in enumerate(charts):
            out.write(f'<g transform="translate(0 {HEADING + HEIGHT * i})">\n{one}\n</g>\n')
        out.write("</svg>\n")


main()
