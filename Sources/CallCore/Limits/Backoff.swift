/// The pauses between attempts: each is twice the one before, up to the longest.
package struct Backoff: Sendable {
  private let first: Span
  private let longest: Span

  package init(_ first: Span, to longest: Span) {
    self.first = first
    self.longest = longest
  }

  /// - Parameter pauses: how many came before this one, in a row.
  package func pause(after pauses: Int) -> Span {
    min(longest, Span(microseconds: first.microseconds << Int64(min(max(0, pauses), 20))))
  }

  /// Less up to a quarter, so that those that failed together do not retry together.
  /// - Parameter chance: a random number.
  package func pause(after pauses: Int, chance: UInt64) -> Span {
    let whole = pause(after: pauses).microseconds
    return Span(microseconds: whole - Int64(chance % (UInt64(whole / 4) + 1)))
  }

  /// Less up to half.
  package func pause(after pauses: Int, random: inout some RandomNumberGenerator) -> Span {
    let half = max(0, pause(after: pauses).microseconds / 2)
    return Span(microseconds: half + Int64.random(in: 0...half, using: &random))
  }
}
