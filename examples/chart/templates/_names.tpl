{{- define "board.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* Asks for the page until it comes; ends with an error when it does not. */ -}}
{{- define "board.check" -}}
terminationGracePeriodSeconds: 1
restartPolicy: Never
containers:
  - name: check
    image: {{ .Values.image | quote }}
    command:
      - python3
      - -c
      - |
        import sys, time, urllib.request
        for _ in range(30):
            try:
                print(urllib.request.urlopen(sys.argv[1], timeout=5).read().decode())
                sys.exit(0)
            except OSError:
                time.sleep(1)
        sys.exit("no answer")
      - http://{{ .Release.Name }}:{{ .Values.port }}/
{{- end }}
