/// The id of one call: a UUID that the caller's device chooses. A device may choose one that it, or another one, has
/// used; so in what is kept of many calls `PlacedCall` names one.
public struct CallID: Hashable, Sendable, CustomStringConvertible {
  public let high: UInt64
  public let low: UInt64

  public init(high: UInt64, low: UInt64) {
    self.high = high
    self.low = low
  }

  /// Reads the usual text form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`, in either case.
  public init?(_ text: String) {
    var high: UInt64 = 0
    var low: UInt64 = 0
    var digits = 0
    var position = 0
    for byte in text.utf8 {
      let dash = position == 8 || position == 13 || position == 18 || position == 23
      position += 1
      if dash {
        guard byte == UInt8(ascii: "-") else { return nil }
        continue
      }
      guard let nibble = byte.hexDigit.map(UInt64.init), digits < 32 else { return nil }
      if digits < 16 { high = high << 4 | nibble } else { low = low << 4 | nibble }
      digits += 1
    }
    guard digits == 32, position == 36 else { return nil }
    self.init(high: high, low: low)
  }

  public var description: String {
    String(unsafeUninitializedCapacity: 36) { buffer in
      var position = 0
      for digit in 0..<32 {
        if digit == 8 || digit == 12 || digit == 16 || digit == 20 {
          buffer[position] = UInt8(ascii: "-")
          position += 1
        }
        let word = digit < 16 ? high : low
        let nibble = UInt8(truncatingIfNeeded: word >> (60 - 4 * UInt64(digit & 15))) & 15
        buffer[position] = nibble < 10 ? 48 + nibble : 87 + nibble
        position += 1
      }
      return 36
    }
  }

  /// The 16 bytes of the UUID.
  public var bytes: [UInt8] {
    [high, low].flatMap { word in
      stride(from: UInt64(56), through: 0, by: -8).map { UInt8(truncatingIfNeeded: word >> $0) }
    }
  }
}

/// One call among those that have, or had, the same id.
public struct PlacedCall: Hashable, Sendable {
  public var id: CallID
  /// In milliseconds since 1970: as all stores have it.
  public var placedAt: Int64
  public init(_ id: CallID, placedAt: Timestamp) {
    (self.id, self.placedAt) = (id, placedAt.milliseconds)
  }
}

/// A user of one app. Two apps on one cluster never meet.
public struct UserKey: Hashable, Sendable, CustomStringConvertible {
  public let app: String
  public let user: String

  public init(app: String, user: String) {
    self.app = app
    self.user = user
  }

  public var description: String { "\(app)/\(user)" }
}

/// The id of a device, chosen by the app, unique for its user, as `IdentifierRules` has it.
public struct DeviceID: Hashable, Sendable, CustomStringConvertible, ExpressibleByStringLiteral {
  public let text: String
  public init(_ text: String) { self.text = text }
  public init(stringLiteral value: String) { self.text = value }
  public var description: String { text }
}

/// A device's live connection: which edge holds it, and the edge's own number for it.
///
/// An HTTP request counts as a session of its own, so that its reply finds it.
public struct SessionRef: Hashable, Sendable, CustomStringConvertible {
  public let edge: UInt64
  public let number: UInt64

  public init(edge: UInt64, number: UInt64) {
    self.edge = edge
    self.number = number
  }

  /// The session's name, the same for its device, in logs and in what operators see: both numbers in
  /// hexadecimal digits, `51a7-3`.
  public var description: String {
    "\(String(edge, radix: 16))-\(String(number, radix: 16))"
  }
}

/// A point in time, in microseconds since 1970, as the coordinator counts it.
///
/// Drivers anchor it to the wall clock once, at start, and advance it by the monotonic clock, so it
/// never goes back in one process. Deadlines are compared with it on whichever node owns the shard.
public struct Timestamp: Hashable, Comparable, Sendable {
  public let microseconds: Int64

  public init(microseconds: Int64) { self.microseconds = microseconds }

  public static let distantFuture = Timestamp(microseconds: .max)
  public static func < (a: Self, b: Self) -> Bool { a.microseconds < b.microseconds }
  public static func + (time: Self, span: Span) -> Self {
    Self(microseconds: time.microseconds &+ span.microseconds)
  }
  public static func - (a: Self, b: Self) -> Span {
    Span(microseconds: a.microseconds &- b.microseconds)
  }
  package static func - (time: Self, span: Span) -> Self {
    Self(microseconds: time.microseconds - span.microseconds)
  }
  /// Rounded down, as the device protocol has it.
  public var milliseconds: Int64 { microseconds / 1000 }
}

/// A length of time in microseconds. (`Duration` is 128 bits wide and slower to compare.)
public struct Span: Hashable, Comparable, Sendable {
  public let microseconds: Int64
  public init(microseconds: Int64) { self.microseconds = microseconds }
  package static let zero = Span(microseconds: 0)
  public static func milliseconds(_ count: Int64) -> Self { Self(microseconds: count * 1000) }
  public static func seconds(_ count: Int64) -> Self { Self(microseconds: count * 1_000_000) }
  package static func + (a: Self, b: Self) -> Self {
    Self(microseconds: a.microseconds + b.microseconds)
  }
  public static func < (a: Self, b: Self) -> Bool { a.microseconds < b.microseconds }
}
