/// A credential that authorises a command to act for its user and device. The shard's driver checks it before the
/// machine gets the command; no rule uses it.
public enum Credential: Sendable, Equatable {
  /// From nodes other than edges, and from edges of versions before tickets.
  case none
  case ticket(SessionTicket)
  /// The user's token, as the app signed it.
  case token(String)
  /// The short-lived capability in a push, which allows its receiver to decline or to ask.
  case pushCapability(String)
}

/// A ticket that a coordinator gives an edge for a session once it has verified the token itself: a code over app,
/// user, device, edge and the token's times and key, which coordinators alone can make.
public struct SessionTicket: Sendable, Hashable {
  public var high: UInt64
  public var low: UInt64
  /// When the token expires, in seconds since 1970.
  public var expires: UInt32
  /// When the token was issued, in seconds since 1970.
  public var issued: UInt32
  /// The number of the key that signed the token.
  public var key: UInt32
  public init(high: UInt64, low: UInt64, expires: UInt32, issued: UInt32, key: UInt32 = 0) {
    self.high = high
    self.low = low
    self.expires = expires
    self.issued = issued
    self.key = key
  }
}

/// A random secret that an edge draws at its start and shows to coordinators alone. The edge's number is derived
/// from it, so no other node can act as this edge.
public struct EdgeSecret: Sendable, Hashable {
  public var high: UInt64
  public var low: UInt64
  public init(high: UInt64, low: UInt64) {
    self.high = high
    self.low = low
  }
}
