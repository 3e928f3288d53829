internal import CallCore

extension Span {
  /// A duration, rounded down to microseconds.
  init(_ duration: Duration) {
    let parts = duration.components
    self.init(microseconds: parts.seconds * 1_000_000 + parts.attoseconds / 1_000_000_000_000)
  }
}
