internal import CallTelemetry
internal import JWTKit

/// A Google service account, as its key file has it. Its key goes to no log and no error.
package struct ServiceAccount: Sendable {
  package var email: String
  package var project: String
  /// Where access tokens come from, and whom the assertion is for.
  package var tokenURI: String
  package var keyID: String
  let key: Insecure.RSA.PrivateKey

  private struct File: Decodable {
    var type: String?
    var email: String?
    var project: String?
    var key: String?
    var keyID: String?
    var tokenURI: String?
    enum CodingKeys: String, CodingKey {
      case type
      case email = "client_email"
      case project = "project_id"
      case key = "private_key"
      case keyID = "private_key_id"
      case tokenURI = "token_uri"
    }
  }

  /// Reads a key file.
  /// - Throws: what is wrong, and what to do about it.
  package static func load(
    path: String, sender: String
  ) throws(SenderConfigurationError) -> ServiceAccount {
    try ServiceAccount(
      json: try SenderFiles.read(path, sender: sender), file: path, sender: sender)
  }

  package init(
    json: [UInt8], file: String, sender: String
  ) throws(SenderConfigurationError) {
    func wrong(_ what: String, _ remedy: String) -> SenderConfigurationError {
      SenderConfigurationError(sender: sender, place: file, what: what, remedy: remedy)
    }
    let again = "make a new key for the service account and give its JSON file"
    guard let read = BoundedJSON.decode(File.self, json) else {
      throw wrong("it is not a service account's key file", again)
    }
    guard read.type == "service_account" else {
      throw wrong(
        "its type is not service_account", "give a service account's key, not a client's")
    }
    guard let email = read.email, email.contains("@") else {
      throw wrong("client_email is missing or no address", again)
    }
    guard let project = read.project, Self.isProject(project) else {
      throw wrong("project_id is missing or not valid", again)
    }
    guard let tokenURI = read.tokenURI, ServiceAddress.plain(tokenURI) == tokenURI else {
      throw wrong("token_uri is missing or not an https address", again)
    }
    guard let pem = read.key else { throw wrong("private_key is missing", again) }
    // Whatever the decoder of keys says may quote the key.
    guard let key = try? Insecure.RSA.PrivateKey(pem: pem) else {
      throw wrong(
        "private_key is not the PEM text of an RSA key of 2048 bits or more", again)
    }
    self.email = email
    self.project = project
    self.tokenURI = tokenURI
    keyID = read.keyID ?? ""
    self.key = key
  }

  /// Letters, digits, `-`, and the `:` and `.` of projects of domains.
  package static func isProject(_ text: String) -> Bool {
    (1...64).contains(text.utf8.count) && text.isAlphanumericASCII(or: "-:.")
  }

  /// What is sent for an access token: a JWT, RS256 (RFC 7523; Google, "Using OAuth 2.0 for Server
  /// to Server Applications").
  package func assertion(nowSeconds: Int64) async throws -> String {
    let keys = JWTKeyCollection()
    await keys.add(rsa: key, digestAlgorithm: .sha256)
    var header = JWTHeader()
    header.typ = "JWT"
    if !keyID.isEmpty { header.kid = keyID }
    let claims = Claims(
      iss: email, scope: Self.scope, aud: tokenURI, iat: nowSeconds,
      exp: nowSeconds + Self.lifetimeSeconds)
    return try await keys.sign(claims, header: header)
  }

  package static let scope = "https://www.googleapis.com/auth/firebase.messaging"
  /// The most that Google takes.
  static let lifetimeSeconds: Int64 = 3600

  /// Whole seconds: JWTKit writes a date with fractions.
  private struct Claims: JWTPayload {
    var iss: String
    var scope: String
    var aud: String
    var iat: Int64
    var exp: Int64
    func verify(using algorithm: some JWTAlgorithm) async throws {}
  }
}
