public import CallBus
internal import Glibc

/// A node's credentials, and how it authenticates servers. Files are read again for each connection.
public struct NATSAccess: Sendable, Equatable {
  /// A part of it; raw values are the names of the settings.
  public enum Part: String, Sendable, CaseIterable {
    case natsCredentials, natsUser, natsPasswordFile, natsCA, natsCertificate, natsKey
  }

  public struct Problem: Error, Equatable, CustomStringConvertible {
    public var part: Part
    public var description: String
  }

  /// Path of a credentials file; nil: none.
  public var credentialsFile: String?
  /// A user and password in the URL take precedence over these two.
  public var user: String?
  public var passwordFile: String?
  /// Path of a PEM file with certificate authorities that are trusted in addition to the system's.
  public var ca: String?
  /// Paths of PEM files with the client certificate and its key.
  public var certificate: String?
  public var key: String?

  public init() {}

  /// Checks the settings and reads all files.
  /// - Throws: the first problem.
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
      guard let path, unsafe access(path, R_OK) != 0 else { continue }
      throw Self.unreadable(part)
    }
    _ = try password()
    guard let options = try? ConnectOptions() else { return }
    try options.setFiles(self)
  }

  /// Whether TLS is required of all servers, because it is of one: otherwise, whoever can block one server could send
  /// the node to another.
  package func demandsTLS(of servers: String) -> Bool {
    ca != nil || certificate != nil
      || servers.split(separator: ",").contains { $0.hasPrefix("tls://") }
  }

  /// The content of the password file, without the newline.
  /// - Throws: `Problem`, if the file cannot be read or its content cannot be used.
  func password() throws(Problem) -> String? {
    guard let passwordFile else { return nil }
    let file = unsafe open(passwordFile, O_RDONLY | O_CLOEXEC)
    guard file >= 0 else { throw Self.unreadable(.natsPasswordFile) }
    defer { close(file) }
    var bytes = [UInt8](repeating: 0, count: Self.passwordBytesMax + 2)
    let count = unsafe read(file, &bytes, bytes.count)
    guard count >= 0 else { throw Self.unreadable(.natsPasswordFile) }
    var text = String(decoding: bytes[..<count], as: UTF8.self)
    if text.hasSuffix("\n") { text.removeLast() }
    guard !text.isEmpty, text.utf8.count <= Self.passwordBytesMax, Self.isPlain(text) else {
      throw Problem(
        part: .natsPasswordFile,
        description:
          "it must hold a password and nothing else: at most \(Self.passwordBytesMax) bytes, "
          + "without quotes, backslashes and line ends")
    }
    return text
  }

  /// The problem that `errno` shows.
  private static func unreadable(_ part: Part) -> Problem {
    let reason = unsafe String(cString: strerror(errno))
    return Problem(part: part, description: "the file cannot be read (\(reason))")
  }

  private static let passwordBytesMax = 1024

  /// The library writes user and password into JSON without escaping.
  private static func isPlain(_ text: String) -> Bool {
    text.utf8.allSatisfy { $0 >= 32 && $0 != 127 && $0 != UInt8(ascii: "\"") && $0 != 92 }
  }
}

public struct NATSOptions: Sendable {
  /// The names of the streams and buckets.
  public var subjects: Subjects
  /// The time that each server has to accept the connection and greet.
  public var connectTimeout: Duration = .seconds(2)
  public var access = NATSAccess()
  /// The most messages that wait for the connection's thread, and as many again while the server does not read. Policy:
  /// refuse, and count.
  public var outboxMessagesMax = 65_536
  /// The most bytes of payload that wait. Policy: refuse, and count.
  public var outboxBytesMax = 64 << 20
  /// The most messages that the library holds for one subscription, between two turns of the connection's thread.
  /// Policy: drop the newest, and count.
  public var subscriptionMessagesMax: Int32 = 65_536
  public var subscriptionBytesMax: Int32 = 64 << 20
  /// The most writes to one stream that wait for their acknowledgement. Policy: refuse.
  public var streamWritesMax = 262_144
  /// The time that a request to JetStream (create a stream, purge, information), and a write to a bucket, waits for its
  /// answer.
  public var managementTimeout: Duration = .seconds(5)
  /// The same for reading one message. A stream without a leader does not answer, so a short time lets the next attempt
  /// find the new leader soon.
  public var readTimeout: Duration = .seconds(1)
  /// The same for creating a consumer, which listing and watching a bucket need. In a cluster of servers only their
  /// leader answers.
  public var consumerTimeout: Duration = .seconds(2)
  /// How long `close` tries to send what is queued.
  public var closeTimeout: Duration = .seconds(1)
  /// Receives events for the operators' log, on threads of the bus; must not block.
  public var onEvent: @Sendable (NATSEvent) -> Void = { _ in }

  /// The role whose reply subjects the node uses, since servers let each role subscribe to its own only; nil: any.
  public var role: String?

  public init(subjects: Subjects) { self.subjects = subjects }
}

public enum NATSEvent: Sendable, Equatable {
  case connected(server: String)
  case disconnected
  case reconnected(server: String)
  /// The connection has ended for good: the server refused the credentials, or the bus was closed.
  case closed
  /// An asynchronous error of the library, such as a missing permission or a slow consumer.
  case failure(String)
}
