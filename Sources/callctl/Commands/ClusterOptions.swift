internal import ArgumentParser
internal import CallBus
internal import FoundationEssentials
internal import NATSBus

extension ArgumentHelp {
  /// The help of an option that an environment variable may give as well.
  /// - Parameters:
  ///   - variable: the variable's name behind `CALLMESH_`.
  ///   - standard: the default, where the help shows one.
  static func option(
    _ meaning: String, _ variable: String, standard: String? = nil, valueName: String = "path"
  ) -> ArgumentHelp {
    let standard = standard.map { " (default: \($0))" } ?? ""
    return ArgumentHelp(
      "\(meaning) CALLMESH_\(variable) does the same.\(standard)", valueName: valueName)
  }
}

/// Which cluster to ask, and how long to wait.
struct ClusterOptions: ParsableArguments {
  @Option(
    help: .option("Where NATS is.", "NATS_URL", standard: "nats://127.0.0.1:4222", valueName: "url")
  )
  var natsUrl: String?
  @Option(
    help: .option("A NATS credentials file, where the servers ask for one.", "NATS_CREDENTIALS"))
  var natsCredentials: String?
  @Option(
    help: .option(
      "The NATS user, where the servers ask for user and password.", "NATS_USER", valueName: "name")
  )
  var natsUser: String?
  @Option(help: .option("The file with that user's password.", "NATS_PASSWORD_FILE"))
  var natsPasswordFile: String?
  @Option(
    help: .option(
      "The authorities that sign the certificates of NATS servers (PEM), beside those that the system "
        + "trusts.", "NATS_CA"))
  var natsCA: String?
  @Option(
    help: .option(
      "The certificate that is shown to NATS servers that ask for one (PEM).", "NATS_CERTIFICATE"))
  var natsCertificate: String?
  @Option(help: .option("The key of that certificate (PEM).", "NATS_KEY"))
  var natsKey: String?
  @Option(
    help: .option("The cluster's name.", "CLUSTER", standard: "callmesh", valueName: "name"))
  var cluster: String?
  @Option(
    name: .customLong("operator"),
    help: .option(
      "Under whose name orders are given and recorded: NATS lets an operator use its own only.",
      "OPERATOR", standard: "the NATS user, or who you are on this machine", valueName: "name"))
  var operatorOption: String?
  @Option(
    help: ArgumentHelp(
      "How long nodes may take to answer, in seconds; orders, which are recorded first, may take 5 more.",
      valueName: "seconds"))
  var timeout: Double = 1

  func validate() throws {
    guard timeout >= 0.05, timeout <= 60 else {
      throw ValidationError("--timeout is \(timeout); give 0.05 to 60 seconds.")
    }
    if natsUrl?.contains("@") == true {
      throw ValidationError(
        "--nats-url is \(shownURL): it holds a password or a token, which every process of this machine "
          + "can read there. Give the URL without it, and --nats-user with --nats-password-file; or set "
          + "CALLMESH_NATS_URL.")
    }
    guard !clusterName.isEmpty, !clusterName.contains(where: { ".*> \t".contains($0) }) else {
      throw ValidationError(
        "--cluster is \"\(clusterName)\"; a cluster's name is 1 to 32 letters, digits, '-' and '_'."
      )
    }
  }

  private var environment: [String: String] { ProcessInfo.processInfo.environment }
  private var url: String {
    natsUrl ?? environment["CALLMESH_NATS_URL"] ?? "nats://127.0.0.1:4222"
  }
  var clusterName: String { cluster ?? environment["CALLMESH_CLUSTER"] ?? "callmesh" }
  private var window: Duration { .milliseconds(Int64(timeout * 1000)) }

  private var operatorName: String {
    let names = [
      operatorOption, environment["CALLMESH_OPERATOR"], access.user, environment["USER"],
    ]
    return names.lazy.compactMap { $0 }.first { !$0.isEmpty } ?? "operator"
  }

  private var access: NATSAccess {
    func given(_ flag: String?, _ name: String) -> String? {
      flag ?? environment["CALLMESH_NATS_" + name]
    }
    var access = NATSAccess()
    access.credentialsFile = given(natsCredentials, "CREDENTIALS")
    access.user = given(natsUser, "USER")
    access.passwordFile = given(natsPasswordFile, "PASSWORD_FILE")
    access.ca = given(natsCA, "CA")
    access.certificate = given(natsCertificate, "CERTIFICATE")
    access.key = given(natsKey, "KEY")
    return access
  }

  /// The URL as it may be shown.
  var shownURL: String { NATSURL.withoutCredentials(url) }

  /// Connects to NATS while `body` runs.
  /// - Throws: `CallctlError` when NATS cannot be reached; what `body` throws.
  func withCluster<Result>(_ body: (ClusterQuestions) async throws -> Result) async throws -> Result
  {
    let subjects = Subjects(cluster: clusterName, shardCount: 1)
    var options = NATSOptions(subjects: subjects)
    options.access = access
    options.role = NATSRole.operator.rawValue
    do {
      try access.check()
    } catch {
      throw CallctlError.usage("\(error.part.rawValue): \(error).")
    }
    let bus: NATSBus
    do {
      bus = try await NATSBus.connect(url: url, name: "callctl", options: options)
    } catch {
      throw CallctlError.unreachable(
        """
        NATS at \(shownURL) cannot be reached: \(error).
          --nats-url URL or CALLMESH_NATS_URL says where it is, --cluster or CALLMESH_CLUSTER which \
        cluster to ask.
        """)
    }
    let questions = ClusterQuestions(
      bus: bus, subjects: subjects, window: window,
      orderWindow: window + options.managementTimeout, shownURL: shownURL,
      operatorName: operatorName)
    do {
      let result = try await body(questions)
      await bus.close()
      return result
    } catch {
      await bus.close()
      throw error
    }
  }
}
