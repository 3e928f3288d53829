import CallCore
import CallNodeKit
import Testing

/// The files of an edge as an operator names them.
@Suite(.timeLimit(.minutes(1))) struct TLSSettingTests {
  private func node(_ flags: [SettingKey: String]) throws -> NodeConfiguration {
    let settings = try ResolvedSettings.resolve(
      flags: flags.merging(["keysFile": "keys.json"]) { a, _ in a }, environment: [:], file: nil)
    return try settings.node(for: .edge, generatedNodeID: "n")
  }

  @Test func bothOrNone() throws {
    let none = try node([:])
    #expect(none.tlsCertificate == nil && none.tlsKey == nil)
    let both = try node(["tlsCertificate": "c.pem", "tlsKey": "k.pem"])
    #expect(both.tlsCertificate == "c.pem" && both.tlsKey == "k.pem")
    for (given, missing) in [
      (SettingKey("tlsCertificate"), "--tls-key"), ("tlsKey", "--tls-certificate"),
    ] {
      let error = #expect(throws: ConfigurationError.self) { try node([given: "x.pem"]) }
      #expect("\(String(describing: error))".contains(missing))
    }
  }

  @Test("TURN servers and their secret: both or none")
  func turn() throws {
    let both = try node(["turnUrls": "turn:a?transport=udp,turns:b", "turnSecretFile": "turn"])
    #expect(both.turnURLs == ["turn:a?transport=udp", "turns:b"])
    #expect(both.turnSecretFile == "turn" && both.turnLifetime == .seconds(3600))
    for (given, text, missing) in [
      (SettingKey("turnUrls"), "turn:a", "--turn-secret-file"),
      ("turnSecretFile", "turn", "--turn-urls"),
    ] {
      let error = #expect(throws: ConfigurationError.self) { try node([given: text]) }
      #expect("\(String(describing: error))".contains(missing))
    }
    #expect(throws: ConfigurationError.self) {
      try node(["turnUrls": "stun:a", "turnSecretFile": "turn"])
    }
  }
}
