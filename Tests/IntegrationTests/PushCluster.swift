import CallClient
import CallCore
import CallProcesses
import CallTelemetry
import CallTestKit
import CallWire
import Crypto
import Foundation
import PushSimulators
import Synchronization

/// A cluster of real processes with push gateways, and the providers that they push to: strict
/// simulators of APNs, FCM and a push service for browsers, in this process.
final class PushCluster: Sendable {
  static let bundle = "org.example.calls"

  let cluster: TestCluster
  let apns: APNsSimulator
  let fcm: FCMSimulator
  let web: WebPushSimulator
  let mail: PushMail
  let http: EdgeHTTPClient
  /// The VAPID key of the gateways.
  let webKeyPEM: String
  let loginsUsed = Mutex<[String]>([])
  let devices: APNsDevices
  private let authority: LoopbackAuthority

  /// - Parameters:
  ///   - script: what APNs does wrong from the first connection on.
  ///   - options: the options of every node beside the rest.
  ///   - gatewayOptions: the options of gateways beside that.
  static func run(
    coordinators: Int = 1, gateways: Int = 1, script: APNsScript = APNsScript(),
    options: [String] = [], gatewayOptions: [String] = [],
    _ body: (PushCluster) async throws -> Void
  ) async throws {
    let cluster = try await TestCluster.start(
      coordinators: coordinators, edges: 1, options: options)
    let stage = try await start(cluster, script)
    do {
      for number in 1...gateways { try stage.startGateway("p\(number)", gatewayOptions) }
      for number in 1...gateways { try await stage.waitUntilServing("p\(number)") }
      try await body(stage)
    } catch {
      await stage.stop()
      throw error
    }
    await stage.stop()
  }

  private static func start(
    _ cluster: TestCluster, _ script: APNsScript
  ) async throws -> PushCluster {
    do {
      return try await PushCluster(cluster, script)
    } catch {
      cluster.stop()
      throw error
    }
  }

  private init(_ cluster: TestCluster, _ script: APNsScript) async throws {
    self.cluster = cluster
    (mail, devices) = (PushMail(), APNsDevices())
    var options = APNsSimulatorOptions(bundles: [Self.bundle])
    options.devices = devices
    options.script = script
    options.onPush = { [mail] in mail.take($0) }
    apns = try await APNsSimulator.start(options)
    authority = try LoopbackAuthority()
    fcm = try await FCMSimulator.start(authority: authority) { Self.nowSeconds() }
    let key = P256.Signing.PrivateKey()
    webKeyPEM = key.pemRepresentation
    web = try await WebPushSimulator.start(
      authority: authority,
      applicationServerKey: Base64URL.text(Array(key.publicKey.x963Representation))
    ) { Self.nowSeconds() }
    http = EdgeHTTPClient(edges: [cluster.url("e1")])
    try write(apns.key.privateKeyPEM, "apns.p8")
    try write(apns.authorityPEM, "apns-authority.pem")
    try write(webKeyPEM, "vapid.pem")
    try write(providers, "providers.json")
  }

  private static func nowSeconds() -> Int64 { Int64(Date().timeIntervalSince1970) }

  /// Into the nodes' folder.
  func write(_ text: String, _ name: String) throws {
    try Data(text.utf8).write(to: URL(fileURLWithPath: cluster.folder + "/" + name))
  }

  /// The gateways' file.
  private var providers: String {
    """
    {
      "apns": [{
        "name": "phones", "team": "\(apns.key.team)", "key": "\(apns.key.id)",
        "keyFile": "apns.p8", "environment": "production", "topics": ["\(Self.bundle)"],
        "endpoint": "127.0.0.1:\(apns.port)", "caFile": "apns-authority.pem"
      }],
      "fcm": [{
        "name": "androids", "project": "\(fcm.project)",
        "serviceAccountFile": "\(fcm.serviceAccountFile)", "endpoint": "\(fcm.origin)",
        "tokenEndpoint": "\(fcm.tokenEndpoint)", "caFile": "\(authority.caFile)"
      }],
      "webPush": [{
        "name": "browsers", "keyFile": "vapid.pem", "subject": "mailto:push@example.org",
        "furtherHosts": ["localhost:\(web.port)"], "allowsPrivateAddresses": true,
        "caFile": "\(authority.caFile)"
      }]
    }
    """
  }

  func startGateway(_ name: String, _ options: [String] = []) throws {
    try cluster.startGateway(name, providers: cluster.folder + "/providers.json", options)
  }

  func waitUntilServing(_ gateway: String) async throws {
    try await eventually("\(gateway) serves") {
      cluster.log(gateway).contains("push gateway serves")
    }
  }

  private func stop() async {
    cluster.stop()
    await apns.stop()
    await fcm.stop()
    await web.stop()
  }

  /// The gateways' violations of the providers' contracts.
  var violations: [String] {
    apns.report.remarks + fcm.violations + web.violations
  }

  /// With which devices registered.
  var logins: [String] { loginsUsed.withLock { $0 } }

  // MARK: What its nodes say

  /// The sum of a metric over its labels; `name` may end within them.
  func metric(_ node: String, _ name: String) async -> Double {
    let text = await HTTPProbe.get("127.0.0.1", cluster.operatorsPort(node), "/metrics").body
    return text.split(separator: "\n").filter { $0.hasPrefix(name) }
      .compactMap { $0.split(separator: " ").last.flatMap { Double($0) } }.reduce(0, +)
  }

  func report(_ call: CallID) async throws -> CallReport {
    struct Output: Decodable { var call: CallReport }
    let output = try await cluster.callctl("call", call.description, "--json")
    return try JSONDecoder().decode(Output.self, from: Data(output.text.utf8)).call
  }

  /// The pushes that the cluster decided to send for a call, by device.
  func pushes(_ call: CallID) async throws -> [String: [String]] {
    let legs = try await report(call).legs ?? []
    return Dictionary(
      legs.map { ($0.party.device, $0.pushes ?? []) }, uniquingKeysWith: { $0 + $1 })
  }
}

/// The pushes that APNs handed to devices.
final class PushMail: Sendable {
  private let all = Mutex<[APNsPush]>([])

  func take(_ push: APNsPush) { all.withLock { $0.append(push) } }

  /// In order.
  func pushes(to token: String) -> [APNsPush] {
    all.withLock { $0.filter { $0.token == token } }
  }
}
