import CallCore
import CallTestKit

let bundle = "com.example.calls"
let topic = "com.example.calls.voip"
let sampleKey = APNsProviderKey(id: "KEYID12345", team: "TEAMID1234")
let sampleToken = String(repeating: "ab01", count: 16)
let sampleID = "00112233-4455-6677-8899-aabbccddeeff"
let noon = Timestamp(microseconds: 1_800_000_000_000_000)

extension APNsRequest {
  /// A correct VoIP push.
  static func sample(
    token: String = sampleToken, id: String? = sampleID, provider: String? = nil,
    now: Timestamp = noon, body: String = #"{"aps":{}}"#
  ) -> APNsRequest {
    var fields: [Field] = [
      Field(":method", "POST"), Field(":scheme", "https"), Field(":path", "/3/device/\(token)"),
      Field(":authority", "localhost"),
      Field(
        "authorization",
        "bearer \(provider ?? (now == noon ? providerOfNoon : sampleKey.token(issuedAt: now)))"),
      Field("apns-push-type", "voip"), Field("apns-topic", topic),
      Field("apns-expiration", "0"), Field("apns-priority", "10"),
    ]
    if let id { fields.append(Field("apns-id", id)) }
    return APNsRequest(fields: fields, body: Array(body.utf8))
  }

  /// With another value for a field; nil: without it.
  func with(_ name: String, _ value: String?) -> APNsRequest {
    var request = self
    request.fields.removeAll { $0.name == name }
    if let value {
      let field = Field(name, value)
      if name.hasPrefix(":") {
        request.fields.insert(field, at: 0)
      } else {
        request.fields.append(field)
      }
    }
    return request
  }

  func with(body: String) -> APNsRequest {
    APNsRequest(fields: fields, body: Array(body.utf8))
  }
}

extension APNsSimulatorOptions {
  /// A server that knows the sample key, and accepts any token.
  static func sample(_ change: (inout APNsSimulatorOptions) -> Void = { _ in }) -> Self {
    var options = APNsSimulatorOptions(keys: [sampleKey], bundles: [bundle])
    options.strangers = .accept
    change(&options)
    return options
  }
}

/// Runs a server for the length of a test.
func withSimulator<Result>(
  _ options: APNsSimulatorOptions = .sample(), _ body: (APNsSimulator) async throws -> Result
) async throws -> Result {
  let simulator = try await APNsSimulator.start(options)
  do {
    let result = try await body(simulator)
    await simulator.stop()
    return result
  } catch {
    await simulator.stop()
    throw error
  }
}

/// Runs a server and a connection to it for the length of a test.
func withSender(
  _ options: APNsSimulatorOptions = .sample(),
  _ body: (APNsSimulator, TestSender) async throws -> Void
) async throws {
  try await withSimulator(options) { simulator in
    let sender = try await TestSender.connect(to: simulator)
    try await body(simulator, sender)
    await sender.close()
  }
}

extension TestSender {
  /// Sends a push with a provider token of this minute.
  func push(
    _ request: APNsRequest? = nil, token: String = sampleToken, id: String? = sampleID
  ) async -> Fate {
    let request = request ?? .sample(token: token, id: id, provider: providerOfNow)
    return await send(request.fields, body: String(decoding: request.body, as: UTF8.self))
  }
}

/// Signatures are random, so each call would give another token.
let providerOfNoon = sampleKey.token(issuedAt: noon)

/// One provider token for the whole run: a sender keeps its own for a while, too.
let providerOfNow: String = {
  let clock = APNsSimulatorOptions().clock
  return sampleKey.token(issuedAt: clock())
}()
