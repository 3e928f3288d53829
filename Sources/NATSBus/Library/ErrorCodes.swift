internal import CNATS
package import CallBus

extension BusError.Code {
  static let noSuitablePeers = Self.jetStream(10005)
  static let noMessageFound = Self.jetStream(10037)
  static let streamNameInUse = Self.jetStream(10058)
  package static let streamNotFound = Self.jetStream(10059)
  static let subjectsOverlap = Self.jetStream(10065)
  /// The expected sequence is not the last one; the second number is newer servers'.
  static let wrongLastSequence = [Self.jetStream(10071), .jetStream(10164)]
  /// A store operation failed, for any reason: a limit of the stream, a full disk, a broken one.
  static let storeFailed = Self.jetStream(10077)

  /// The server does not accept the credentials.
  package static let refusals = [Self(NATS_CONNECTION_AUTH_FAILED), Self(NATS_NOT_PERMITTED)]
  /// TLS is demanded, and the server offers none.
  package static let noTLS = Self(NATS_SECURE_CONNECTION_WANTED)

  init(_ status: natsStatus) { self = .library(status.rawValue) }
}
