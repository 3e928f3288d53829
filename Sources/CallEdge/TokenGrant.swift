package import CallAuth

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
    expires = UInt32(clamping: claims.expiresAtSeconds)
    issued = UInt32(clamping: claims.issuedAtSeconds)
    key = claims.keyNumber
    let lifetime = claims.expiresAtSeconds - claims.issuedAtSeconds
    tellsAt = UInt32(
      clamping: claims.expiresAtSeconds - min(Self.notice, max(0, lifetime / 4)))
  }
}
