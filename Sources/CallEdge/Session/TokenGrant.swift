package import CallAuth
package import CallCore

/// What a session keeps of its token, in 16 bytes. All times are seconds since 1970.
package struct TokenGrant: Equatable {
  let expires: UInt32
  /// When the device is told that it expires; `max`: it was.
  var tellsAt: UInt32
  let issued: UInt32
  let key: UInt32

  /// How long before its end the device is told, at most.
  static let notice: Int64 = 60

  /// Of a session that has not attached.
  static let none = TokenGrant(
    DeviceClaims(app: "", user: "", device: nil, expiresAtSeconds: 0))

  package init(_ claims: DeviceClaims) {
    self.init(
      expires: UInt32(clamping: claims.expiresAtSeconds),
      issued: UInt32(clamping: claims.issuedAtSeconds), key: claims.keyNumber)
  }

  /// What a ticket says of the token for which it was given.
  package init(_ ticket: SessionTicket) {
    self.init(expires: ticket.expires, issued: ticket.issued, key: ticket.key)
  }

  private init(expires: UInt32, issued: UInt32, key: UInt32) {
    self.expires = expires
    self.issued = issued
    self.key = key
    let lifetime = max(0, Int64(expires) - Int64(issued))
    tellsAt = UInt32(clamping: Int64(expires) - min(Self.notice, lifetime / 4))
  }
}
