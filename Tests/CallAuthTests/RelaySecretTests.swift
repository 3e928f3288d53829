import CallAuth
import FoundationEssentials
import Testing

/// The secret that edges share with TURN servers.
@Suite struct RelaySecretTests {
  /// A file that is removed with the value.
  private final class SecretFile {
    let path: String
    init(_ text: String) {
      let folder = ProcessInfo.processInfo.environment["TMPDIR"] ?? "/tmp"
      path = folder + "/turn-\(UInt64.random(in: 0 ... .max)).secret"
      write(text)
    }
    func write(_ text: String) {
      #expect(FileManager.default.createFile(atPath: path, contents: Data(text.utf8)))
    }
    deinit { try? FileManager.default.removeItem(atPath: path) }
  }

  /// As `printf 1800000000:ann | openssl dgst -sha1 -hmac north-of-the-wall-17 -binary | base64` makes it.
  @Test("credentials are those of coturn's REST form") func credentials() throws {
    let file = SecretFile("north-of-the-wall-17\n")
    let secret = try RelaySecret(file: file.path)
    let (username, password) = secret.credentials(for: "ann", expires: 1_800_000_000)
    #expect(username == "1800000000:ann")
    #expect(password == "K+MnDDHVLzme/DQhKUiRKEvCdHA=")
  }

  @Test("a new secret signs from then on, and a bad one does not replace it") func reload() throws {
    let file = SecretFile("north-of-the-wall-17")
    let secret = try RelaySecret(file: file.path)
    let first = secret.credentials(for: "ann", expires: 1).password
    file.write("short")
    #expect(throws: RelaySecretError.self) { try secret.reload() }
    #expect(secret.credentials(for: "ann", expires: 1).password == first)
    file.write("south-of-the-wall-18")
    try secret.reload()
    #expect(secret.credentials(for: "ann", expires: 1).password != first)
  }

  @Test(arguments: [
    ("", "the secret has 0 bytes"), ("short\n", "the secret has 5 bytes"),
    ("one-secret-that-is-long\nand another\n", "it holds more than one line of ASCII"),
  ])
  func refused(text: String, what: String) {
    let file = SecretFile(text)
    let error = #expect(throws: RelaySecretError.self) { try RelaySecret(file: file.path) }
    #expect(error?.what == what)
  }

  @Test func aFileThatIsNotThere() {
    let error = #expect(throws: RelaySecretError.self) { try RelaySecret(file: "/nowhere/turn") }
    #expect(error?.what == "the file cannot be read")
  }
}
