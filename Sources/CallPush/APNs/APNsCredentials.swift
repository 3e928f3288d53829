internal import Crypto

/// A team's signing key for provider tokens. Describes itself without the key.
public struct APNsCredentials: Sendable, CustomStringConvertible, CustomDebugStringConvertible,
  CustomReflectable
{
  public let team: String
  public let keyID: String
  private let key: P256.Signing.PrivateKey

  /// - Parameter pem: the text of the `.p8` file from Apple's developer account.
  public init(team: String, keyID: String, pem: String) throws(APNsConfigurationError) {
    guard Self.isIdentifier(team) else { throw .badTeam }
    guard Self.isIdentifier(keyID) else { throw .badKeyID }
    // The parser's own error may quote what it was given.
    guard let key = try? P256.Signing.PrivateKey(pemRepresentation: pem) else { throw .badKey }
    self.team = team
    self.keyID = keyID
    self.key = key
  }

  private static func isIdentifier(_ text: String) -> Bool {
    text.utf8.count == 10 && text.isAlphanumericASCII()
  }

  public var description: String { "APNs key \(keyID) of team \(team)" }
  public var debugDescription: String { description }
  public var customMirror: Mirror { Mirror(self, children: ["team": team, "keyID": keyID]) }

  /// A provider token: a JWT with ES256.
  ///
  /// - Parameter issuedAt: seconds since 1970. APNs accepts the token for an hour from then.
  /// - Throws: the error of signing.
  package func token(issuedAt: Int64) throws -> String {
    try ES256Token.sign(
      header: #"{"alg":"ES256","kid":"\#(keyID)"}"#,
      claims: #"{"iss":"\#(team)","iat":\#(issuedAt)}"#, with: key)
  }
}
