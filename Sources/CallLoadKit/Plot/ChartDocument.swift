import FoundationEssentials

/// Charts below each other in one SVG file, which follows the reader's light or dark colours. Pure.
package struct ChartDocument: Sendable {
  package var title: String
  package var subtitle: String
  package var charts: [Chart]

  package init(title: String, subtitle: String, charts: [Chart]) {
    self.title = title
    self.subtitle = subtitle
    self.charts = charts
  }

  private static let width = 960.0
  private static let heading = 64.0
  private static let chartHeight = 300.0
  /// The frame of a chart's lines within its part of the document.
  private static let frame = (left: 90.0, right: 40.0, top: 58.0, bottom: 52.0)
  /// More marks than this have no names beside them, which would overlap.
  private static let namedMarksMax = 8
  /// Apart from colours, for eyes and printers that see none.
  private static let dashes = ["", "7 4", "2 3", "10 3 2 3", "1 5"]

  package func svg() -> String {
    let height = Self.heading + Self.chartHeight * Double(charts.count)
    var out = """
      <svg xmlns="http://www.w3.org/2000/svg" width="\(Self.text(Self.width))" \
      height="\(Self.text(height))" viewBox="0 0 \(Self.text(Self.width)) \(Self.text(height))" \
      role="img">
      <title>\(Self.escaped(title))</title>
      <style>\(Self.style)</style>
      <rect class="ground" width="100%" height="100%"/>
      <text class="title" x="20" y="30">\(Self.escaped(title))</text>
      <text class="soft" x="20" y="50">\(Self.escaped(subtitle))</text>

      """
    for (number, chart) in charts.enumerated() {
      let top = Self.heading + Self.chartHeight * Double(number)
      out += "<g transform=\"translate(0 \(Self.text(top)))\">\n\(draw(chart))</g>\n"
    }
    return out + "</svg>\n"
  }

  private func draw(_ chart: Chart) -> String {
    let frame = Self.frame
    let plane = Plane(
      x: AxisScale(
        chart.x, chart.points.map(\.x) + chart.marks.flatMap { [$0.from, $0.to] }, ticksMax: 12),
      y: AxisScale(chart.y, chart.points.map(\.y), ticksMax: 6),
      left: frame.left, right: Self.width - frame.right, top: frame.top,
      bottom: Self.chartHeight - frame.bottom)
    var out = "<text class=\"head\" x=\"20\" y=\"22\">\(Self.escaped(chart.title))</text>\n"
    out += legend(chart.lines)
    out += marks(chart.marks, plane) + axes(chart, plane)
    for (number, line) in chart.lines.enumerated() { out += draw(line, number, plane) }
    return out
  }

  private func legend(_ lines: [Chart.Line]) -> String {
    var x = Self.frame.left
    var out = ""
    for (number, line) in lines.enumerated() {
      out += """
        <line class="line c\(number % 5)" stroke-dasharray="\(Self.dashes[number % 5])" \
        x1="\(Self.text(x))" x2="\(Self.text(x + 28))" y1="40" y2="40"/>
        <text class="label" x="\(Self.text(x + 34))" y="44">\(Self.escaped(line.name))</text>

        """
      x += 60 + 7 * Double(line.name.count)
    }
    return out
  }

  private func axes(_ chart: Chart, _ plane: Plane) -> String {
    var out = ""
    for tick in plane.y.ticks {
      let y = Self.text(plane.y(tick))
      out += """
        <line class="grid" x1="\(Self.text(plane.left))" x2="\(Self.text(plane.right))" \
        y1="\(y)" y2="\(y)"/>
        <text class="label end" x="\(Self.text(plane.left - 8))" y="\(y)" dy="4">\
        \(Self.escaped(chart.y.label(tick)))</text>

        """
    }
    for tick in plane.x.ticks {
      let x = Self.text(plane.x(tick))
      out += """
        <line class="grid" x1="\(x)" x2="\(x)" y1="\(Self.text(plane.top))" \
        y2="\(Self.text(plane.bottom))"/>
        <text class="label middle" x="\(x)" y="\(Self.text(plane.bottom + 18))">\
        \(Self.escaped(chart.x.label(tick)))</text>

        """
    }
    let middle = Self.text((plane.top + plane.bottom) / 2)
    return out + """
      <text class="soft middle" x="\(Self.text((plane.left + plane.right) / 2))" \
      y="\(Self.text(plane.bottom + 38))">\(Self.escaped(chart.x.title))</text>
      <text class="soft middle" transform="translate(22 \(middle)) rotate(-90)">\
      \(Self.escaped(chart.y.title))</text>

      """
  }

  private func marks(_ marks: [Chart.Mark], _ plane: Plane) -> String {
    marks.enumerated().map { number, mark in
      let (from, to) = (plane.x(mark.from), plane.x(mark.to))
      let nameY = Self.text(plane.top + 12 + 13 * Double(number % 3))
      let text = """
        <text class="markname" x="\(Self.text(from + 3))" y="\(nameY)">\
        \(Self.escaped(mark.name))</text>
        """
      let name = marks.count > Self.namedMarksMax ? "" : text
      return """
        <g><title>\(Self.escaped(mark.name))</title><rect class="mark" x="\(Self.text(from))" \
        y="\(Self.text(plane.top))" width="\(Self.text(max(to - from, 1.5)))" \
        height="\(Self.text(plane.bottom - plane.top))"/>\(name)</g>

        """
    }.joined()
  }

  private func draw(_ line: Chart.Line, _ number: Int, _ plane: Plane) -> String {
    let places = line.points.sorted { $0.x < $1.x }.map { point in
      (point, Self.text(plane.x(point.x)), Self.text(plane.y(point.y)))
    }
    let path = places.map { "\($0.1),\($0.2)" }.joined(separator: " ")
    // A few points are values that somebody measured, and are seen as such.
    let dots = places.count > 20 ? [] : places
    return """
      <polyline class="line c\(number % 5)" stroke-dasharray="\(Self.dashes[number % 5])" \
      points="\(path)"/>

      """
        + dots.map { point, x, y in
          "<circle class=\"dot c\(number % 5)\" cx=\"\(x)\" cy=\"\(y)\" r=\"3\"/>\n"
        }.joined()
  }

  /// A chart's frame, and where values are in it.
  private struct Plane {
    let x: AxisScale
    let y: AxisScale
    let left, right, top, bottom: Double
    func x(_ value: Double) -> Double { left + x.place(value) * (right - left) }
    func y(_ value: Double) -> Double { bottom - y.place(value) * (bottom - top) }
  }

  private static func text(_ value: Double) -> String { Units.trimmed(value, 1) }

  static func escaped(_ text: String) -> String {
    text.replacing("&", with: "&amp;").replacing("<", with: "&lt;").replacing(">", with: "&gt;")
  }

  private static let style = """
    text{font:13px system-ui,sans-serif;fill:#1b1f24}.title{font-size:18px;font-weight:600}\
    .head{font-size:15px;font-weight:600}.label{font-size:12px}.soft{fill:#57606a}\
    .end{text-anchor:end}.middle{text-anchor:middle}.ground{fill:#fff}\
    .grid{stroke:#d8dce2;stroke-width:1}.mark{fill:#cf222e;fill-opacity:.16}\
    .markname{font-size:11px;fill:#a40e26}.line{fill:none;stroke-width:2}\
    .c0{stroke:#0b62c4}.c1{stroke:#a84300}.c2{stroke:#a3195b}.c3{stroke:#1a7f37}\
    .c4{stroke:#6f42c1}.dot{fill:#fff;stroke-width:2}\
    @media (prefers-color-scheme:dark){text{fill:#e6edf3}.soft{fill:#9aa4af}.ground,.dot{fill:#0d1117}\
    .grid{stroke:#30363d}.mark{fill:#ff7b72;fill-opacity:.22}.markname{fill:#ffa198}\
    .c0{stroke:#58a6ff}.c1{stroke:#f0883e}.c2{stroke:#ff7eb6}.c3{stroke:#56d364}.c4{stroke:#bc8cff}}
    """
}
