internal import CallCore

#if canImport(FoundationEssentials)
  public import FoundationEssentials
#else
  public import Foundation
#endif

extension CallID {
  /// Draws an id.
  public static func random() -> CallID { CallID(UUID()) }

  public init(_ uuid: UUID) {
    var bytes: [UInt8] = []
    withUnsafeBytes(of: uuid.uuid) { bytes.append(contentsOf: $0) }
    func word(_ bytes: ArraySlice<UInt8>) -> UInt64 { bytes.reduce(0) { $0 << 8 | UInt64($1) } }
    self.init(high: word(bytes[..<8]), low: word(bytes[8...]))
  }

  /// The same id, as CallKit has it.
  public var uuid: UUID {
    let b = bytes
    return UUID(
      uuid: (
        b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
        b[14], b[15]
      ))
  }
}

extension Timestamp {
  /// The same time by the wall clock. Times of the cluster are by its clock.
  public var date: Date { Date(timeIntervalSince1970: Double(microseconds) / 1_000_000) }

  /// A date that does not fit becomes the earliest or the latest time.
  public init(_ date: Date) {
    let microseconds = date.timeIntervalSince1970 * 1_000_000
    self.init(
      microseconds: Int64(exactly: microseconds.rounded()) ?? (microseconds < 0 ? .min : .max))
  }
}

extension Span {
  var duration: Duration { .microseconds(microseconds) }

  /// Rounded towards zero.
  init(_ duration: Duration) {
    let (seconds, attoseconds) = duration.components
    self.init(microseconds: seconds * 1_000_000 + attoseconds / 1_000_000_000_000)
  }
}
