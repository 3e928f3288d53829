internal import CNATS
internal import Glibc

/// How a node shows servers who it is, and by what it knows them. Files are read again for each connection.
public struct NATSAccess: Sendable, Equatable {
  /// Which of them; raw values are the names of the settings.
  public enum Part: String, Sendable, CaseIterable {
    case natsCredentials, natsUser, natsPasswordFile, natsCA, natsCertificate, natsKey
  }

  public struct Problem: Error, Equatable, CustomStringConvertible {
    public var part: Part
    public var description: String
  }

  /// Path of a credentials file; nil: none.
  public var credentialsFile: String?
  /// What stands in a URL counts before these two.
  public var user: String?
  public var passwordFile: String?
  /// PEM: whose signature a server's certificate may bear, beside those whom the system trusts.
  public var ca: String?
  /// PEM: what the node shows to servers that ask; and the key to it.
  public var certificate: String?
  public var key: String?

  public init() {}

  /// - Throws: what is wrong with the files, or missing.
  public func check() throws(Problem) {
    for (part, other, value, partner) in [
      (Part.natsUser, Part.natsPasswordFile, user, passwordFile),
      (.natsPasswordFile, .natsUser, passwordFile, user),
      (.natsCertificate, .natsKey, certificate, key),
      (.natsKey, .natsCertificate, key, certificate),
    ] where value != nil && partner == nil {
      throw Problem(part: part, description: "needs \(other.rawValue) beside it")
    }
    if let user, !Self.isPlain(user) {
      throw Problem(part: .natsUser, description: "must not hold quotes, backslashes or line ends")
    }
    for (part, path) in [
      (Part.natsCredentials, credentialsFile), (.natsCA, ca), (.natsCertificate, certificate),
      (.natsKey, key),
    ] {
      guard let path, access(path, R_OK) != 0 else { continue }
      throw Problem(
        part: part, description: "the file cannot be read (\(String(cString: strerror(errno))))")
    }
    _ = try password()
    var raw: OpaquePointer?
    guard natsOptions_Create(&raw) == NATS_OK, let options = raw else { return }
    defer { natsOptions_Destroy(options) }
    try setFiles(options)
  }

  /// One of the servers has to speak TLS, so all have: whoever can keep a node from one could else send it to
  /// another.
  package func demandsTLS(of servers: String) -> Bool {
    ca != nil || certificate != nil
      || servers.split(separator: ",").contains { $0.hasPrefix("tls://") }
  }

  /// The files for TLS. Loading them makes the library ready for TLS, and leaves it to the server whether it is
  /// spoken.
  func setFiles(_ options: OpaquePointer) throws(Problem) {
    if let ca {
      try Self.check(.natsCA, natsOptions_LoadCATrustedCertificates(options, ca))
    }
    if let certificate, let key {
      try Self.check(
        .natsCertificate, natsOptions_LoadCertificatesChain(options, certificate, key))
    }
  }

  /// What stands in the file, without the end of its line.
  func password() throws(Problem) -> String? {
    guard let passwordFile else { return nil }
    func refuse(_ why: String) -> Problem { Problem(part: .natsPasswordFile, description: why) }
    let file = open(passwordFile, O_RDONLY | O_CLOEXEC)
    guard file >= 0 else {
      throw refuse("the file cannot be read (\(String(cString: strerror(errno))))")
    }
    defer { close(file) }
    var bytes = [UInt8](repeating: 0, count: Self.passwordBytesMax + 2)
    let count = read(file, &bytes, bytes.count)
    guard count >= 0 else {
      throw refuse("the file cannot be read (\(String(cString: strerror(errno))))")
    }
    var text = String(decoding: bytes[..<count], as: UTF8.self)
    if text.hasSuffix("\n") { text.removeLast() }
    guard !text.isEmpty, text.utf8.count <= Self.passwordBytesMax, Self.isPlain(text) else {
      throw refuse(
        "it must hold a password and nothing else: at most \(Self.passwordBytesMax) bytes, without "
          + "quotes, backslashes and line ends")
    }
    return text
  }

  private static let passwordBytesMax = 1024

  /// The library writes both into JSON as they are.
  private static func isPlain(_ text: String) -> Bool {
    text.utf8.allSatisfy { $0 >= 32 && $0 != 127 && $0 != UInt8(ascii: "\"") && $0 != 92 }
  }

  private static func check(_ part: Part, _ status: natsStatus) throws(Problem) {
    guard status != NATS_OK else { return }
    throw Problem(part: part, description: "it cannot be used (\(natsErrorText(status)))")
  }
}
