# package: apache2
# needs: /usr/sbin/apache2
# what: mpm_event, 200 requests by 10 clients
apache event
