import CallNodeKit
import Testing

/// The certificate of an edge as an operator names it.
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
}
