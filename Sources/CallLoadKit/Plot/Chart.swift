import Glibc

/// Lines over a common x axis, to be drawn as SVG. Pure.
package struct Chart: Sendable {
  package struct Line: Sendable {
    package var name: String
    package var points: [Point]
    package init(name: String, points: [Point]) {
      self.name = name
      self.points = points
    }
  }

  package struct Point: Sendable, Equatable {
    package var x: Double
    package var y: Double
    package init(x: Double, y: Double) {
      self.x = x
      self.y = y
    }
  }

  /// A time in which something happened.
  package struct Mark: Sendable {
    package var name: String
    package var from: Double
    package var to: Double
    package init(name: String, from: Double, to: Double) {
      self.name = name
      self.from = from
      self.to = to
    }
  }

  package var title: String
  package var x: Axis
  package var y: Axis
  package var lines: [Line]
  package var marks: [Mark] = []

  package init(title: String, x: Axis, y: Axis, lines: [Line]) {
    self.title = title
    self.x = x
    self.y = y
    self.lines = lines
  }

  var points: [Point] { lines.flatMap(\.points) }
}

package struct Axis: Sendable {
  /// With its unit.
  package var title: String
  package var isLogarithmic = false
  /// The axis begins at 0. Not on a logarithmic one.
  package var hasZero = false
  package var label: @Sendable (Double) -> String

  package init(
    _ title: String, isLogarithmic: Bool = false, hasZero: Bool = false,
    label: @escaping @Sendable (Double) -> String = { Units.trimmed($0, 3) }
  ) {
    self.title = title
    self.isLogarithmic = isLogarithmic
    self.hasZero = hasZero
    self.label = label
  }
}

/// Where the values of an axis are between 0 and 1, and the values to name.
struct AxisScale {
  private let isLogarithmic: Bool
  private let low: Double
  private let high: Double
  let ticks: [Double]

  init(_ axis: Axis, _ values: [Double], ticksMax: Int) {
    let found = values.filter { $0.isFinite && (!axis.isLogarithmic || $0 > 0) }
    let least = axis.hasZero && !axis.isLogarithmic ? 0 : found.min() ?? 1
    let most = found.max() ?? least
    isLogarithmic = axis.isLogarithmic
    if axis.isLogarithmic {
      (low, high, ticks) = Self.logarithmic(least, most, ticksMax)
    } else {
      (low, high, ticks) = Self.linear(least, most, ticksMax)
    }
  }

  func place(_ value: Double) -> Double {
    let place =
      isLogarithmic
      ? (log(max(value, low)) - log(low)) / (log(high) - log(low)) : (value - low) / (high - low)
    return min(max(place, 0), 1)
  }

  /// From a multiple of a round step to another one.
  private static func linear(
    _ least: Double, _ most: Double, _ ticksMax: Int
  ) -> (Double, Double, [Double]) {
    let span = max(most - least, max(abs(most), 1) * 1e-6)
    let rough = span / Double(ticksMax)
    let power = pow(10, log10(rough).rounded(.down))
    let step = [1, 2, 5, 10].map { $0 * power }.first { $0 >= rough } ?? rough
    let first = (least / step).rounded(.down)
    let last = max((most / step).rounded(.up), first + 1)
    return (first * step, last * step, (0...Int(last - first)).map { (first + Double($0)) * step })
  }

  /// From a power of ten, or its double or fivefold, to another one.
  private static func logarithmic(
    _ least: Double, _ most: Double, _ ticksMax: Int
  ) -> (Double, Double, [Double]) {
    let exponents = Int(log10(least).rounded(.down))...Int(log10(most).rounded(.down)) + 1
    let all = exponents.flatMap { exponent in [1, 2, 5].map { $0 * pow(10, Double(exponent)) } }
    let low = all.last { $0 <= least * 1.000_001 } ?? least
    let high = all.first { $0 >= most && $0 > low } ?? most
    let within = all.filter { low <= $0 && $0 <= high }
    let decades = within.filter { log10($0).rounded() == log10($0) }
    return (low, high, within.count <= ticksMax || decades.count < 2 ? within : decades)
  }
}
