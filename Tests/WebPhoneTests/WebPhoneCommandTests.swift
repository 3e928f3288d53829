import ArgumentParser
import CallClient
import CallLoadKit
import NIOCore
import NIOPosix
import Testing
import WebPhoneKit

/// Command lines that are refused before anything starts, and the server's socket.
@Suite("Web phone: command and server") struct WebPhoneCommandTests {
  private static let page =
    "--folder=/" + #filePath.split(separator: "/").dropLast(3).joined(separator: "/")
    + "/clients/web"

  private func refusal(_ words: String...) -> String {
    do {
      let programs = ["--nats=/bin/sh", "--callnode=/bin/sh"]
      let command = try WebPhoneCommand.parse([Self.page] + programs + words)
      _ = try command.plan()
      return "accepted"
    } catch {
      return "\(error)"
    }
  }

  @Test("options") func options() {
    #expect(refusal() == "accepted")
    #expect(refusal("--port=70000").hasPrefix("--port 70000"))
    #expect(refusal("--nodes=0").hasPrefix("--nodes 0"))
    #expect(refusal("--users=,").hasPrefix("--users"))
    #expect(refusal("--tls", "--host=127.0.0.1") == "accepted")
    #expect(refusal("--host=127.0.0.1").hasPrefix("--host goes with --tls"))
    #expect(refusal("--tls", "--host=192.0.2.1").hasPrefix("--host 192.0.2.1: this machine has"))
    #expect(refusal("--folder=/nowhere").hasPrefix("/nowhere: there is no phone/index.html"))
    #expect(refusal("--nats=/nowhere").hasPrefix("nats-server is not there"))
    #expect(refusal("--callnode=/nowhere").hasPrefix("callnode is not beside webphone"))
  }

  @Test("the cluster keeps histories and tells ongoing calls") func cluster() throws {
    let words = [Self.page, "--nats=/bin/sh", "--callnode=/bin/sh", "--users=ann,bob"]
    let plan = try WebPhoneCommand.parse(words).plan()
    #expect(plan.cluster.keepsHistory && plan.cluster.showsOngoing)
    #expect(plan.contacts.map(\.name) == ["Ann", "Bob"])
  }

  @Test("a group of all contacts, each once, unless one of them has its name") func team() throws {
    func team(_ users: String) throws -> Development.Contact? {
      let words = [Self.page, "--nats=/bin/sh", "--callnode=/bin/sh", "--users=\(users)"]
      return try WebPhoneCommand.parse(words).plan().team
    }
    #expect(try team("ann,bob,ann") == Development.Contact(user: "team", members: ["ann", "bob"]))
    #expect(try team("ann,team") == nil)
  }

  @Test("a server that is asked over a socket") func server() async throws {
    let words = [Self.page, "--nats=/bin/sh", "--callnode=/bin/sh"]
    let plan = try WebPhoneCommand.parse(words).plan()
    let server = try await WebServer.start(port: 0, site: WebSite(files: plan.folder) { nil })
    let page = try await get("/phone/", port: server.port)
    #expect(page.status == 200)
    #expect(String(decoding: page.body, as: UTF8.self).contains("<title>Callmesh phone</title>"))
    #expect(try await get("/../Package.swift", port: server.port).status == 404)
    #expect(try await get("/development/settings", port: server.port).status == 503)
    await server.stop()
  }

  private func get(_ path: String, port: Int) async throws -> EdgeResponse {
    try await EdgeExchange.run(
      EdgeRequest(method: "GET", path: path), to: EdgeAddress(host: "127.0.0.1", port: port),
      timeout: .seconds(10), .system, on: MultiThreadedEventLoopGroup.singleton.next(),
      responseBytesMax: 1 << 20)
  }
}
