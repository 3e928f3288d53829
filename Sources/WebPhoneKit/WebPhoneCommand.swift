package import ArgumentParser
package import CallLoadKit
import CallProcesses
import FoundationEssentials

/// The command line of `webphone`.
package struct WebPhoneCommand: ParsableCommand, Sendable {
  package static let configuration = CommandConfiguration(
    commandName: "webphone",
    abstract: "A cluster on this machine, with a phone for browsers.",
    discussion: """
      Starts one nats-server and some nodes, each a process on loopback, and
      serves the web phone (clients/web/phone). Open it in two windows as two
      users, and call. Ctrl-C ends everything, and nothing is kept. A contact of
      everybody, Team, is a group: a call to it rings all of them.

      Everybody who can reach the port on this machine may be any user: the
      server asks for no password and gives a token to whoever wants one. It
      is for development only. Without --tls it listens on loopback only.

      Browsers treat http://localhost as secure, so microphone and camera work
      without TLS. Other machines need --tls: then page and nodes listen on the
      network, with a certificate that is made for this run.

      EXAMPLES
        webphone
            Ann, Bob, Carl and Dora at http://localhost:8090/?user=ann, …
        webphone --port 9000 --users ann,bob
            Another port, and only two contacts. Any other name may sign in, too.
        webphone --port 0
            A free port; the address is printed.
        webphone --tls
            Also from other machines and real phones, at https://192.168.1.5:8090/…
        webphone --folder ~/phone --verbose
            Your own page, and where the nodes' logs are.

      IN THE ADDRESS OF THE PAGE
        user=ann            who signs in
        device=Ann's iPad   the name of the device, which others see
        ring=5              calls ring for 5 seconds only
      """)

  @Option(help: "The port of the page; 0: a free one.") package var port = 8090

  @Flag(help: "Use TLS, and listen for other machines, too.") package var tls = false

  @Option(
    help: ArgumentHelp(
      "With --tls, where to listen: an IPv4 address of this machine. Default: all of them.",
      valueName: "address")) package var host: String?

  @Option(
    help: ArgumentHelp("Who is among the contacts of everybody.", valueName: "names"))
  package var users = "ann,bob,carl,dora"

  @Option(help: "How many nodes run, each an edge and a coordinator.") package var nodes = 2

  @Option(
    help: ArgumentHelp(
      "The folder that is served; the page is phone/index.html in it. Default: clients/web of "
        + "this repository.", valueName: "path")) package var folder: String?

  @Option(
    help: ArgumentHelp(
      "The program nats-server. Default: the one in PATH.", valueName: "path"))
  package var nats: String?

  @Option(
    help: ArgumentHelp(
      "The program callnode. Default: the one beside webphone.", valueName: "path"))
  package var callnode: String?

  @Flag(help: "Tell each step, and where the logs are.") package var verbose = false

  package init() {}

  /// - Throws: ``SetupError`` that names the option and the remedy.
  package func plan() throws -> WebPhonePlan {
    guard (0...65_535).contains(port) else {
      throw SetupError("--port \(port): a port is 0 to 65535")
    }
    guard (1...16).contains(nodes) else { throw SetupError("--nodes \(nodes): give 1 to 16") }
    guard tls || host == nil else {
      throw SetupError("--host goes with --tls: without TLS the page is for this machine only")
    }
    return WebPhonePlan(
      port: port, reach: tls ? try .withTLS(at: host) : .loopback, contacts: try contacts(),
      folder: try page(), cluster: try cluster(),
      isVerbose: verbose)
  }

  private func contacts() throws -> [Development.Contact] {
    let names = users.split(separator: ",").map(String.init)
    guard (1...50).contains(names.count), names.allSatisfy({ $0.utf8.count <= 128 }) else {
      throw SetupError("--users \(users): give 1 to 50 names, separated by commas")
    }
    var known: Set<String> = []
    return names.filter { known.insert($0).inserted }.map { Development.Contact(user: $0) }
  }

  private func page() throws -> PageFiles {
    let path = folder ?? PageFiles.ofRepository
    guard let path, let files = PageFiles(folder: path), files.hasPage else {
      throw SetupError(
        "\(path ?? "clients/web"): there is no phone/index.html; "
          + "give the folder clients/web of the repository with --folder")
    }
    return files
  }

  private func cluster() throws -> LocalClusterOptions {
    // Debian installs it in a folder that only root has in PATH.
    guard
      let nats = nats ?? Executables.find("nats-server", also: ["/usr/sbin", "/usr/local/bin"]),
      Executables.isExecutable(nats)
    else {
      throw SetupError(
        "nats-server is not there; install it (Debian: apt-get install nats-server) "
          + "or say where it is with --nats")
    }
    guard let callnode = callnode ?? Executables.beside("callnode"),
      Executables.isExecutable(callnode)
    else {
      throw SetupError(
        "callnode is not beside webphone; build it (make build) or say where it is with --callnode")
    }
    var options = LocalClusterOptions(natsPath: nats, callnodePath: callnode)
    options.app = WebPhonePlan.app
    options.nodes = nodes
    options.shards = 16
    options.keepsHistory = true
    options.showsOngoing = true
    // A user who tries out the phone calls the same few people again and again.
    options.nodeSettings["callsPerPairPerMinute"] = "1000"
    return options
  }
}

/// The plan of a run, checked.
package struct WebPhonePlan: Sendable {
  package static let app = "phone"

  package var port: Int
  package var reach: Reach
  package var contacts: [Development.Contact]
  package var folder: PageFiles
  package var cluster: LocalClusterOptions
  package var isVerbose: Bool

  /// A group of all contacts, which they call like one of them; nil: one of them has its name.
  package var team: Development.Contact? {
    let users = contacts.map(\.user)
    return users.contains("team") ? nil : Development.Contact(user: "team", members: users)
  }
}
