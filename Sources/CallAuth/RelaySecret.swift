internal import Crypto
internal import FoundationEssentials
internal import Synchronization

/// The secret that edges share with the TURN servers, from a file. It signs credentials that are good for a while:
/// the TURN servers know no users, and need no question to the cluster.
///
/// The form is the one of draft-uberti-behave-turn-rest, which coturn takes with `use-auth-secret`: the username is the
/// expiry in seconds since 1970, a colon and the user; the password is the base64 of its HMAC-SHA1 with the secret.
public final class RelaySecret: Sendable {
  /// A shorter one could be guessed from a single credential, which every device has.
  public static let bytesMin = 16
  static let bytesMax = 4096

  public let file: String
  private let key: Mutex<SymmetricKey>

  /// - Throws: why the file cannot be used.
  public init(file: String) throws(RelaySecretError) {
    self.file = file
    key = Mutex(try Self.read(file))
  }

  /// Reads the file again, for credentials from now on. Blocks.
  /// - Throws: why it cannot be used. The former secret then stays.
  public func reload() throws(RelaySecretError) {
    let new = try Self.read(file)
    key.withLock { $0 = new }
  }

  /// - Parameter expires: seconds since 1970.
  package func credentials(for user: String, expires: Int64) -> (username: String, password: String)
  {
    let username = "\(expires):\(user)"
    let key = key.withLock { $0 }
    let code = HMAC<Insecure.SHA1>.authenticationCode(for: Array(username.utf8), using: key)
    return (username, Data(code).base64EncodedString())
  }

  /// White space around the secret does not count, since editors end files with a newline.
  private static func read(_ file: String) throws(RelaySecretError) -> SymmetricKey {
    guard let data = try? Data(contentsOf: URL(filePath: file)) else {
      throw RelaySecretError(
        file: file, what: "the file cannot be read",
        remedy: "Give the path of a file that this user may read.")
    }
    let isSpace = { (byte: UInt8) in byte <= 0x20 }
    let secret = data.drop(while: isSpace).reversed().drop(while: isSpace).reversed()
    guard secret.allSatisfy({ (0x21...0x7E).contains($0) }) else {
      throw RelaySecretError(
        file: file, what: "it holds more than one line of ASCII",
        remedy: "Write the one secret into it that the TURN servers have as static-auth-secret.")
    }
    guard (bytesMin...bytesMax).contains(secret.count) else {
      throw RelaySecretError(
        file: file, what: "the secret has \(secret.count) bytes",
        remedy: "Give \(bytesMin) to \(bytesMax): openssl rand -hex 32 makes one.")
    }
    return SymmetricKey(data: Array(secret))
  }
}

/// Why a file is no secret of TURN servers.
public struct RelaySecretError: Error, Sendable, Equatable, CustomStringConvertible {
  public var file: String
  public var what: String
  public var remedy: String

  public var description: String { "\(file): \(what). \(remedy)" }
}
