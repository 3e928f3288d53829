package import CallAuth
package import CallCore

/// What a session keeps of its token, in 16 bytes. All times are seconds since 1970.
package struct TokenGrant: Equatable {
  let expires: UInt32
  /// When the device is warned that it expires; `max`: it was.
  var warnsAt: UInt32
  let issued: UInt32
  let key: UInt32

  /// The longest time before its expiry at which the device is warned, in seconds.
  static let warningSeconds: Int64 = 60

  /// The grant of a session that has not attached.
  static let none = TokenGrant(DeviceClaims(app: "", user: "", device: nil, expiresAtSeconds: 0))

  package init(_ claims: DeviceClaims) {
    self.init(
      expires: UInt32(clamping: claims.expiresAtSeconds),
      issued: UInt32(clamping: claims.issuedAtSeconds), key: claims.keyNumber)
  }

  /// The token for which a ticket was given.
  package init(_ ticket: SessionTicket) {
    self.init(expires: ticket.expires, issued: ticket.issued, key: ticket.key)
  }

  private init(expires: UInt32, issued: UInt32, key: UInt32) {
    self.expires = expires
    self.issued = issued
    self.key = key
    let lifetime = max(0, Int64(expires) - Int64(issued))
    warnsAt = UInt32(clamping: Int64(expires) - min(Self.warningSeconds, lifetime / 4))
  }
}
