import ArgumentParser
import CallAuth
import CallLoadKit
import CallProcesses
import FoundationEssentials
import Glibc
import NIOSSL
import Synchronization
import UnixSignals

/// `webphone`, without its entry point.
package enum WebPhoneProgram {
  package static func main() async {
    let plan: WebPhonePlan
    do {
      plan = try WebPhoneCommand.parse().plan()
    } catch let error as SetupError {
      fail("webphone: \(error)")
    } catch {
      if WebPhoneCommand.exitCode(for: error).isSuccess { WebPhoneCommand.exit(withError: error) }
      fail(WebPhoneCommand.fullMessage(for: error))
    }
    // A reader that closes its pipe must not end the run before the cluster is stopped.
    signal(SIGPIPE, SIG_IGN)
    exit(await WebPhoneRun(plan: plan).execute())
  }

  private static func fail(_ message: String) -> Never {
    Output.write(message + "\n", to: STDERR_FILENO)
    exit(2)
  }
}

/// One run from the start of the cluster to the exit status.
struct WebPhoneRun: Sendable {
  let plan: WebPhonePlan
  private let processes = ProcessSet()
  private let end = RunEnd()

  init(plan: WebPhonePlan) { self.plan = plan }

  func execute() async -> Int32 {
    let folder: TemporaryFolder
    do {
      folder = try TemporaryFolder("webphone")
    } catch {
      say("webphone: \(error)")
      return 2
    }
    let status = await withTaskGroup(of: Void.self) { group in
      group.addTask { await watchSignals(folder) }
      group.addTask { await watchProcesses() }
      let status = await work(folder)
      await processes.stop()
      group.cancelAll()
      return status
    }
    folder.remove()
    return status
  }

  private func work(_ folder: TemporaryFolder) async -> Int32 {
    do {
      let development = Ready()
      // The port is taken first: whether it is free shows at once.
      let site = WebSite(files: plan.folder, reach: plan.reach) { development.value }
      let server = try await listen(site, tls: try plan.reach.hasTLS ? context(folder) : nil)
      var options = plan.cluster
      (options.tls, options.edgeHost) = (plan.reach.hasTLS, plan.reach.address)
      let origins = plan.reach.hosts.map { plan.reach.page($0, port: server.port) }
      options.nodeSettings["allowedOrigins"] = origins.joined(separator: ",")
      let cluster = try await LocalCluster.start(
        options, in: folder, processes: processes,
        say: { if plan.isVerbose { say($0) } }, isWanted: { end.isWanted })
      var contacts = plan.contacts
      if let team = plan.team {
        try await make(team, cluster)
        contacts.append(team)
      }
      development.set(
        Development(
          edges: cluster.edgeURLs, reach: plan.reach, contacts: contacts, keys: cluster.keys,
          app: options.app, now: Self.now))
      say(welcome(port: server.port, cluster, folder))
      await end.wait()
      say("stopping")
      await server.stop()
      return end.incident == nil ? 0 : 1
    } catch is StartGivenUp {
      return end.incident == nil ? 0 : 1
    } catch {
      say("webphone: \(error)")
      return 2
    }
  }

  private func make(_ group: Development.Contact, _ cluster: LocalCluster) async throws {
    try await cluster.makeGroup(
      group.user, of: group.members ?? [], app: plan.cluster.app,
      edges: cluster.edgeURLs.map { plan.reach.edge($0, from: plan.reach.hosts[0]) },
      now: Self.now())
  }

  @Sendable private static func now() -> Int64 { Int64(Date().timeIntervalSince1970) }

  private func listen(_ site: WebSite, tls: NIOSSLContext?) async throws -> WebServer {
    do {
      return try await WebServer.start(port: plan.port, site: site, tls: tls)
    } catch {
      throw SetupError(
        "cannot listen on \(site.reach.address):\(plan.port): \(error); choose with --port")
    }
  }

  /// Page and edges have one certificate, so that a browser that trusts it trusts both.
  private func context(_ folder: TemporaryFolder) throws -> NIOSSLContext {
    let (names, addresses) = plan.reach.certified
    try LocalCluster.makeCertificate(names: names, addresses: addresses, in: folder)
    let chain = try NIOSSLCertificate.fromPEMFile(folder.file(LocalCluster.certificateFile))
    let key = try NIOSSLPrivateKey(file: folder.file(LocalCluster.keyFile), format: .pem)
    return try NIOSSLContext(
      configuration: .makeServerConfiguration(
        certificateChain: chain.map { .certificate($0) }, privateKey: .privateKey(key)))
  }

  private func welcome(port: Int, _ cluster: LocalCluster, _ folder: TemporaryFolder) -> String {
    var lines = ["Open two of these, in two windows or browsers, and call:"]
    let page = plan.reach.page(plan.reach.hosts[0], port: port)
    lines += plan.contacts.prefix(6).map { "  \(page)/?user=\($0.user)" }
    if plan.isVerbose {
      lines.append("edges: \(cluster.edgeURLs.joined(separator: " "))")
      lines.append("logs:  \(folder.path)")
    }
    lines += plan.reach.hasTLS ? certificateAdvice(cluster) : []
    let who = plan.reach.hasTLS ? "this machine" : "this port on this machine"
    lines.append("Whoever can reach \(who) may be any user.")
    lines.append("Ctrl-C ends it.")
    return lines.joined(separator: "\n")
  }

  private func certificateAdvice(_ cluster: LocalCluster) -> [String] {
    let edges = cluster.edgeURLs.map { plan.reach.edge($0, from: plan.reach.hosts[0]) }
    return [
      "The certificate is made for this run, so each browser asks once whether to trust it.",
      "Firefox asks for each port. Open these in it as well, before you call:",
    ] + edges.map { "  https\($0.dropFirst(3))/healthz" }
  }

  private func watchSignals(_ folder: TemporaryFolder) async {
    let signals = await UnixSignalsSequence(trapping: .sigint, .sigterm, .sighup)
    for await _ in signals {
      guard end.isWanted else {
        processes.killNow()
        folder.remove()
        _exit(130)
      }
      end.come()
    }
  }

  private func watchProcesses() async {
    while let (child, how) = await processes.nextDeath() {
      child.expectEnd()
      say("\(child.name) \(how); its last words:\n\(child.logTail())")
      end.come(incident: "\(child.name) \(how)")
    }
  }

  private func say(_ text: String) { Output.write(text + "\n", to: STDOUT_FILENO) }
}

/// The data that the server gives to the page, once there is any.
private final class Ready: Sendable {
  private let state = Mutex<Development?>(nil)
  var value: Development? { state.withLock { $0 } }
  func set(_ value: Development) { state.withLock { $0 = value } }
}

/// The end of the run: a signal, or a process of the cluster that ended by itself.
private final class RunEnd: Sendable {
  private struct State {
    var isWanted = true
    var incident: String?
    var waiter: CheckedContinuation<Void, Never>?
  }
  private let state = Mutex(State())

  var isWanted: Bool { state.withLock { $0.isWanted } }
  var incident: String? { state.withLock { $0.incident } }

  /// Returns when the run is to end. One task waits.
  func wait() async {
    await withCheckedContinuation { continuation in
      let isOver = state.withLock { state in
        if state.isWanted { state.waiter = continuation }
        return !state.isWanted
      }
      if isOver { continuation.resume() }
    }
  }

  func come(incident: String? = nil) {
    let waiter = state.withLock { state in
      state.isWanted = false
      state.incident = state.incident ?? incident
      return state.waiter.take()
    }
    waiter?.resume()
  }
}
