internal import ArgumentParser
internal import CallCore
internal import CallTestKit
internal import Foundation
internal import Glibc
internal import NIOCore
internal import UnixSignals

/// Serves the simulator to any client of APNs.
@main
struct APNsSim: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "apnssim",
    abstract:
      "A strict APNs on this machine: refuses what Apple's documents forbid, and counts it.",
    discussion: """
      Makes an authority, a certificate for 127.0.0.1 and localhost, and a signing
      key anew at each start; writes the first and the last into a folder, for a
      push gateway or any other client of APNs. Ctrl-C ends it and prints what it
      saw; the exit status is 1 if a client broke a rule.

      Examples:
        apnssim          on port 2197, takes any well-formed device token
        apnssim --show   prints each push it accepts
        apnssim --only-known --token 00…ff=com.example.calls.voip
                         one device, for one app; others are BadDeviceToken
        apnssim --gone 00…ff=com.example.calls.voip
                         a token that is no longer registered: 410
        apnssim --refuse 0.1 --goaway-every 1000
                         a bad day: REFUSED_STREAM and GOAWAY
        apnssim --no-alpn --der --string-iat --early-streams
                         as lenient as the real one is seen to be
      """)

  @Option(help: "The port; 0: a free one.")
  var port = 2197

  @Option(help: "The address to listen on.")
  var host = "127.0.0.1"

  @Option(help: "Where ca.pem and AuthKey_….p8 are written.")
  var folder = "."

  @Option(help: "The team's id.")
  var team = "TEAMID1234"

  @Option(help: "The key's id.")
  var keyID = "KEYID12345"

  @Option(name: .customLong("bundle"), help: "A bundle id of the team; may be given repeatedly.")
  var bundles: [String] = []

  @Flag(help: "The development environment, in place of production.")
  var development = false

  @Option(
    name: .customLong("token"),
    help: ArgumentHelp(
      "A device token and its topic; may be given repeatedly.", valueName: "token=topic"))
  var tokens: [String] = []

  @Option(
    name: .customLong("gone"),
    help: ArgumentHelp(
      "A device token that is gone; may be given repeatedly.", valueName: "token=topic"))
  var gone: [String] = []

  @Flag(help: "Refuses tokens that were not named.")
  var onlyKnown = false

  @Option(help: "Streams a connection may have open, once a push was accepted.")
  var streams = 1000

  @Option(help: "Pushes to one token within a second; beyond: TooManyRequests.")
  var perToken: Int?

  @Option(help: "Seconds without a word before a connection is ended.")
  var idle: Int64 = 3600

  @Option(help: "Provider tokens age so many times faster.")
  var timeScale: Int64 = 1

  @Option(help: "Refuses this share of the streams.")
  var refuse: Double = 0

  @Option(help: "Says GOAWAY at each so-many-th request of a connection.")
  var goawayEvery: Int?

  @Option(help: "Answers so many milliseconds late.")
  var delay: Int64 = 0

  @Option(help: "Event loops.")
  var threads = 1

  @Flag(name: .customLong("no-alpn"), help: "Takes connections without ALPN.")
  var noALPN = false

  @Flag(help: "Takes signatures in DER.")
  var der = false

  @Flag(name: .customLong("string-iat"), help: "Takes iat as a string.")
  var stringIAT = false

  @Flag(help: "Refuses streams before the first SETTINGS are confirmed, and does not hang up.")
  var earlyStreams = false

  @Flag(help: "Prints each push that is accepted.")
  var show = false

  @Flag(help: "Prints the report as JSON.")
  var json = false

  func validate() throws {
    guard 0...65535 ~= port else { throw ValidationError("--port \(port): 0 to 65535") }
    guard streams > 0, threads > 0, idle > 0, timeScale > 0 else {
      throw ValidationError("--streams, --threads, --idle and --time-scale are 1 or more")
    }
    guard 0...1 ~= refuse else { throw ValidationError("--refuse \(refuse): 0 to 1") }
    if let goawayEvery, goawayEvery < 1 { throw ValidationError("--goaway-every is 1 or more") }
    _ = try (tokens + gone).map(Self.device)
  }

  func run() async throws {
    let options = options
    let simulator = try await APNsSimulator.start(options)
    for (token, topic) in try tokens.map(Self.device) { simulator.register(token, topic: topic) }
    for (token, topic) in try gone.map(Self.device) {
      simulator.register(token, topic: topic)
      simulator.unregister(token, at: options.clock())
    }
    let authority = "\(folder)/ca.pem"
    let key = "\(folder)/AuthKey_\(keyID).p8"
    do {
      try write(simulator.authorityPEM, to: authority, mode: 0o644)
      try write(simulator.key.privateKeyPEM, to: key, mode: 0o600)
    } catch {
      await simulator.stop()
      throw error
    }
    print(introduction(simulator, authority: authority, key: key))
    fflush(nil)
    for await _ in await UnixSignalsSequence(trapping: .sigint, .sigterm) { break }
    await simulator.stop()
    let report = simulator.report
    print(json ? report.json : report.description)
    if report.violationsTotal > 0 { throw ExitCode(1) }
  }

  private var options: APNsSimulatorOptions {
    let bundles = bundles.isEmpty ? ["com.example.calls"] : bundles
    var options = APNsSimulatorOptions(
      keys: [APNsProviderKey(id: keyID, team: team)], bundles: Set(bundles))
    options.port = port
    options.host = host
    options.environment = development ? .development : .production
    options.strangers = onlyKnown ? .refuse : .accept
    options.streamsMax = streams
    options.tokenPushesPerSecond = perToken
    options.idleTimeout = .seconds(idle)
    options.timeScale = timeScale
    options.threads = threads
    if noALPN { options.leniency.insert(.noALPN) }
    if der { options.leniency.insert(.derSignatures) }
    if stringIAT { options.leniency.insert(.stringIssuedAt) }
    if earlyStreams { options.leniency.insert(.earlyStreams) }
    if refuse > 0 { options.script.rules.append(.init(.refuse, share: refuse)) }
    if let goawayEvery {
      options.script.rules.append(
        .init(.goAway(.init()), from: goawayEvery, every: goawayEvery, perConnection: true))
    }
    if delay > 0 { options.script.rules.append(.init(.delay(.milliseconds(delay)))) }
    if show {
      options.onPush = { push in
        print(
          "\(push.type.rawValue) \(push.id) to \(push.token.prefix(8))… "
            + String(decoding: push.payload, as: UTF8.self))
        fflush(nil)
      }
    }
    return options
  }

  /// The values to give to a client, and a push to try by hand.
  private func introduction(_ simulator: APNsSimulator, authority: String, key: String) -> String {
    let token = tokens.first?.split(separator: "=").first.map(String.init)
    let bundle = bundles.first ?? "com.example.calls"
    let now = simulator.options.clock()
    return """
      APNs simulator on https://\(host):\(simulator.port) (\(simulator.options.environment.rawValue))
        authority      \(authority)
        signing key    \(key)
        key id, team   \(keyID), \(team)
        bundles        \(simulator.options.bundles.sorted().joined(separator: ", "))
      A push by hand, good for an hour:
        curl --http2 --cacert \(authority) -H 'authorization: bearer \(simulator.key.token(issuedAt: now))' \\
          -H 'apns-push-type: voip' -H 'apns-topic: \(bundle).voip' -H 'apns-expiration: 0' \\
          -d '{"aps":{}}' -i https://localhost:\(simulator.port)/3/device/\(token ?? String(repeating: "0", count: 64))
      Ctrl-C ends it and prints what it saw.

      """
  }

  /// `token=topic`.
  private static func device(_ text: String) throws -> (token: String, topic: String) {
    let parts = text.split(separator: "=", maxSplits: 1)
    guard parts.count == 2 else {
      throw ValidationError("\(text): give a device token, =, and its topic")
    }
    return (String(parts[0]), String(parts[1]))
  }

  private func write(_ text: String, to path: String, mode: mode_t) throws {
    unlink(path)
    let file = open(path, O_WRONLY | O_CREAT | O_EXCL, mode)
    guard file >= 0 else { throw ValidationError("\(path): \(String(cString: strerror(errno)))") }
    do {
      try FileHandle(fileDescriptor: file, closeOnDealloc: true).write(contentsOf: Data(text.utf8))
    } catch {
      throw ValidationError("\(path): \(error)")
    }
  }
}
