package import ArgumentParser
internal import CallClient
package import CallmeshClient
internal import CallmeshNIO
internal import Foundation

/// The command line of `callphone`.
package struct PhoneCommand: AsyncParsableCommand, Sendable {
  package static let configuration = CommandConfiguration(
    commandName: "callphone",
    abstract: "A telephone in the terminal, to try a cluster.",
    discussion: """
      Signs a user in, and takes orders from its input, one a line: call bob,
      answer, hangup; help lists them. What happens is printed.

      There are no media: a call is reported as connected as soon as it is
      answered, and nothing is heard. --play runs a program of yours meanwhile,
      such as one that plays a WAV; it does not reach the other side.

      EXAMPLES
        callnode all --bus in-process --keys-file keys.json --port 8080 &
        export CALLMESH_TOKEN=$(callctl token --app demo --user ann)
        callphone --edge ws://localhost:8080
            Ann's phone. Bob's is the same in another terminal. Type: call bob
        callphone --edge wss://edge.example --token-command './token ann'
            Fetches a token at the start, and whenever one is needed.
        callphone --edge ws://localhost:8080 --react answer
            A phone that answers every call.
        callphone --edge ws://localhost:8080 --play 'aplay ringback.wav'
            Something to hear while a call is answered.

      SCRIPTS
        With --json each line of output is one JSON object with an event, and what
        belongs to it: call (its number on this phone), id, peer, reason, code.
        wait EVENT goes on when that event has come, also before the wait:

          printf '%s\\n' 'wait attached' 'call bob' 'wait answered' hangup \\
            'wait ended' | callphone --edge ws://localhost:8080 --json

        Events: attached, detached, refused, incoming, placed, ringing, answered,
        connected, moved, transfer, said, ended, ongoing, history, notice, error.

      EXIT STATUS
        0 done; 1 the cluster refused the phone; 2 a wait was in vain; 64 the
        command line is wrong.
      """)

  @Option(
    help: ArgumentHelp(
      "An edge's address; several are tried in turn.", valueName: "url"))
  package var edge: [String] = ["ws://localhost:8080"]

  @Option(help: "The user's token. Default: CALLMESH_TOKEN of the environment.")
  package var token: String?

  @Option(
    help: ArgumentHelp("A shell command that prints a token of the user.", valueName: "command"))
  package var tokenCommand: String?

  @Option(help: "The device's id: one for each phone of a user.")
  package var device = "callphone"

  @Option(help: "What others see of this phone.") package var deviceName = "Terminal"

  @Option(
    help: ArgumentHelp(
      "What to do with a call that rings: ring, answer, decline or busy.", valueName: "what"))
  package var react = "ring"

  @Option(
    help: ArgumentHelp(
      "The session description (SDP) of calls and answers, which others' phones see.",
      valueName: "text"))
  package var description = ""

  @Option(
    help: ArgumentHelp(
      "A shell command that runs while a call is answered.", valueName: "command"))
  package var play: String?

  @Option(
    help: ArgumentHelp(
      "A file with the authorities for edges at wss://, in PEM. Default: this machine's.",
      valueName: "file"))
  package var caFile: String?

  @Flag(help: "Print JSON, one object a line.") package var json = false

  package init() {}

  /// - Throws: `ValidationError` that names the option and the remedy.
  package func options(environment: [String: String]) throws -> DeviceOptions {
    guard Phone.Reaction(rawValue: react) != nil else {
      throw ValidationError("--react \(react): give ring, answer, decline or busy.")
    }
    var options = DeviceOptions(edges: edge, device: device)
    options.deviceName = deviceName
    options.client = "callphone/1"
    (options.ongoing, options.history) = (true, true)
    if let tokenCommand {
      options.getToken = { try await TokenProgram.run(tokenCommand) }
    } else if let token = token ?? environment["CALLMESH_TOKEN"], !token.isEmpty {
      options.token = token
    } else {
      throw ValidationError("Give --token or --token-command, or set CALLMESH_TOKEN.")
    }
    return options
  }

  package func run() async throws {
    let options = try options(environment: ProcessInfo.processInfo.environment)
    let transport: NIOTransport
    let device: Device
    do {
      transport = NIOTransport(trust: try caFile.map { try EdgeTrust(caFile: $0) } ?? .system)
      device = try Device(options, transport: transport)
    } catch {
      throw ValidationError("\(error)")
    }
    let json = json
    let phone = Phone(
      device, reaction: Phone.Reaction(rawValue: react) ?? .ring, description: description,
      media: play.map { ProgramMedia($0) }
    ) { line in
      FileHandle.standardOutput.write(Data(((json ? line.json : line.words) + "\n").utf8))
    }
    let ending = await phone.run(Self.input())
    if ending != .done { throw ExitCode(ending.rawValue) }
  }

  /// Lines that may wait to be carried out. Policy at the limit: no more are read.
  private static let room = DispatchSemaphore(value: 100)

  /// The lines of this program's input. They are read by a thread of their own, since reading blocks.
  private static func input() -> some AsyncSequence<String, Never> & Sendable {
    let (lines, feed) = AsyncStream.makeStream(of: String.self)
    Thread {
      while let line = readLine() {
        room.wait()
        feed.yield(line)
      }
      feed.finish()
    }.start()
    return lines.map { line in
      room.signal()
      return line
    }
  }
}
