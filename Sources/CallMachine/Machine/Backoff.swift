package import CallCore

/// Waits that double with each failure, with jitter of half.
package struct Backoff {
  private let minimum: Span
  private let maximum: Span

  package init(_ minimum: Span, _ maximum: Span) {
    self.minimum = minimum
    self.maximum = maximum
  }

  package func span(failures: Int, random: inout some RandomNumberGenerator) -> Span {
    let doubled = minimum.microseconds << Int64(min(max(0, failures), 16))
    let ceiling = max(1, min(doubled, maximum.microseconds))
    return Span(microseconds: ceiling / 2 + Int64.random(in: 0...ceiling / 2, using: &random))
  }
}
