package import CallCore

/// A seeded random stream. Each consumer has its own, so that a new consumer, or one that draws
/// more, does not change the others' numbers.
package struct SimRandom: RandomNumberGenerator, Sendable {
  private var generator: SplitMix64

  package init(seed: UInt64) { generator = SplitMix64(seed: seed) }

  /// The stream of a name under a seed.
  package init(seed: UInt64, name: String) {
    var hash: UInt64 = 0xCBF2_9CE4_8422_2325
    for byte in name.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
    var mixer = SplitMix64(seed: seed ^ hash)
    self.init(seed: mixer.next())
  }

  package mutating func next() -> UInt64 { generator.next() }

  /// 0 ..< 1.
  package mutating func unit() -> Double { Double(next() >> 11) * 0x1p-53 }

  package mutating func chance(_ probability: Double) -> Bool {
    probability > 0 && unit() < probability
  }

  /// 0 ..< bound; the bound is at least 1.
  package mutating func below(_ bound: Int) -> Int {
    Int(next().multipliedFullWidth(by: UInt64(bound)).high)
  }

  package mutating func number(_ range: ClosedRange<Int>) -> Int {
    range.lowerBound + below(range.count)
  }

  /// Evenly between two spans.
  package mutating func span(_ shortest: Span, _ longest: Span) -> Span {
    guard longest > shortest else { return shortest }
    return Span(
      microseconds: shortest.microseconds
        + Int64(below(Int(longest.microseconds - shortest.microseconds + 1))))
  }

  /// Evenly between `-most` and `most`.
  mutating func skew(_ most: Span) -> Span { span(Span(microseconds: -most.microseconds), most) }

  /// An exponentially distributed span: the time between independent events.
  package mutating func exponential(mean: Span) -> Span {
    var u = unit()
    if u < 1e-12 { u = 1e-12 }
    return Span(microseconds: Int64(-Double(mean.microseconds) * Self.logarithm(u)))
  }

  package mutating func pick<Element>(_ elements: [Element]) -> Element? {
    elements.isEmpty ? nil : elements[below(elements.count)]
  }

  /// Natural logarithm for 0 < x < 1, the same to the last bit on every machine.
  private static func logarithm(_ x: Double) -> Double {
    let exponent = x.exponent
    let t = (x.significand - 1) / (x.significand + 1)
    var sum = 0.0
    var power = t
    for odd in stride(from: 1.0, to: 21.0, by: 2.0) {
      sum += power / odd
      power *= t * t
    }
    return 2 * sum + Double(exponent) * 0.6931471805599453
  }
}
