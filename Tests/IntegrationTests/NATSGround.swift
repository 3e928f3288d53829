import CallBus
import CallCore
import CallProcesses
import CallTestKit
import Foundation
import NATSBus
import TestSupport
import Testing

/// Servers with the shipped files, adapted in ports and paths, and with one more user, `root`, who may do anything.
struct NATSGround {
  static let deploy = DocumentBlock.repository + "/deploy/nats/"

  let folder = try! LoopbackAuthority()
  let servers: [NATSServerProcess]
  var server: NATSServerProcess { servers[0] }
  var url: String { servers.map { "tls://127.0.0.1:\($0.port)" }.joined(separator: ",") }

  init(servers count: Int = 1) async throws {
    let (certificate, key) = try folder.issue(
      "server", hosts: ["localhost"], addresses: ["127.0.0.1"])
    #expect(certificate.hasSuffix("server.crt") && key.hasSuffix("server.key"))
    for name in ["single.conf", "cluster.conf", "permissions.conf"] {
      let text = try String(contentsOfFile: Self.deploy + name, encoding: .utf8)
        .replacing("/etc/callmesh/nats", with: folder.path)
        // The process is told where its store is.
        .replacing("store_dir: \"/var/lib/callmesh/nats\"", with: "")
        .replacing("users: [", with: "users: [ { user: \"root\", password: $ROOT_PASSWORD }")
      try text.write(toFile: folder.path + "/" + name, atomically: true, encoding: .utf8)
    }
    var passwords = ""
    for user in ["edge", "coordinator", "push", "node", "admin", "root"] {
      passwords += "\(user.uppercased())_PASSWORD: \"of-\(user)\"\n"
      try "of-\(user)\n".write(
        toFile: folder.path + "/\(user).password", atomically: true, encoding: .utf8)
    }
    try passwords.write(toFile: folder.path + "/passwords.conf", atomically: true, encoding: .utf8)
    let (path, authority) = (folder.path, folder.caFile)
    if count == 1 {
      servers = [try await NATSServerProcess.start(arguments: ["-c", path + "/single.conf"])]
    } else {
      servers = try await NATSServerProcess.startCluster(of: count) { number, routes in
        ["-c", try Self.clusterFile(number, routes, path, authority: authority)]
      }
    }
  }

  /// cluster.conf as it is on one of the servers, which all run here.
  private static func clusterFile(
    _ number: Int, _ routes: [String], _ path: String, authority: String
  ) throws -> String {
    var text = try String(contentsOfFile: path + "/cluster.conf", encoding: .utf8)
      .replacing(path + "/ca.crt", with: authority)
    for (index, route) in routes.enumerated() {
      text = text.replacing("nats://nats-\(index + 1):6222", with: route)
    }
    text = text.replacing("$NATS_NAME", with: "nats-\(number + 1)")
      .replacing("http: 127.0.0.1:8222", with: "")
      .replacing("host: 0.0.0.0\n  port: 6222", with: "listen: \(routes[number].dropFirst(7))")
    let file = path + "/cluster-\(number).conf"
    try text.write(toFile: file, atomically: true, encoding: .utf8)
    return file
  }

  /// The arguments of a node of a role, or of `callctl`.
  func access(_ role: String) -> [String] {
    let user = ["operator": "admin", "all": "node"][role] ?? role
    return [
      "--nats-url", url, "--nats-ca", folder.caFile, "--nats-user", user,
      "--nats-password-file", folder.path + "/\(user).password",
    ]
  }

  static let subjects = Subjects(cluster: TestCluster.name, shardCount: 64)

  func connect(_ role: NATSRole, _ events: Inbox<NATSEvent>) async throws -> NATSBus {
    var options = options(role == .operator ? "admin" : role.rawValue)
    options.role = role.rawValue
    options.onEvent = { events.offer($0) }
    return try await NATSBus.connect(url: url, name: "test", options: options)
  }

  func connectAsRoot() async throws -> NATSBus {
    try await NATSBus.connect(url: url, name: "test", options: options("root"))
  }

  private func options(_ user: String) -> NATSOptions {
    var options = NATSOptions(subjects: Self.subjects)
    options.access.ca = folder.caFile
    options.access.user = user
    options.access.passwordFile = folder.path + "/\(user).password"
    return options
  }
}
