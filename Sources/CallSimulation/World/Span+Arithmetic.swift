internal import CallCore

extension Span {
  static let zero = Span(microseconds: 0)

  /// A duration, rounded down to microseconds.
  init(_ duration: Duration) {
    let parts = duration.components
    self.init(microseconds: parts.seconds * 1_000_000 + parts.attoseconds / 1_000_000_000_000)
  }

  static func + (a: Self, b: Self) -> Self { Self(microseconds: a.microseconds + b.microseconds) }
}

extension Timestamp {
  static func - (time: Self, span: Span) -> Self {
    Self(microseconds: time.microseconds - span.microseconds)
  }
}
